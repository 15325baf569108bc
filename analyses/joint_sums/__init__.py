"""Counts, sums and means over the rows that several owners share."""
