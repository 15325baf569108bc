"""Masked sums that the coordinator hosts."""
