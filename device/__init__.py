"""A member of masked sums that only dials out."""
