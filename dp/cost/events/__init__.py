"""Privacy events: one file for each kind of noise."""
