"""How errors and times grow with rows, columns and owners."""
