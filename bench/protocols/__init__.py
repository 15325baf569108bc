"""Measures steps of the computation under shares: sharing, products, reductions."""
