"""Estimates of a distribution from responses, beside their rivals and masked sums: the figures 3.2 to 3.7 of [SW20]."""
