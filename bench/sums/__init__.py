"""Measures masked sums: over services, and the computation alone."""
