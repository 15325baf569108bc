"""What people see in a terminal: how commands print, and how results, plots and progress look there."""
