"""Low-rank approximation."""
