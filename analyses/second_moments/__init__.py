"""Noisy estimates of X^T X, under shares or by sketches, which several analyses use."""
