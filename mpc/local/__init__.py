"""Every member in one process: the in-process network and simulations."""
