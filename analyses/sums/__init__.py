"""Sums, means and histograms over many members."""
