"""Noisy estimates of X^T X, under shares or by sketches: what several analyses stand on."""
