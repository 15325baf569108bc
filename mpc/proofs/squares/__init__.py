"""Sums of four squares: what completes a row to its norm."""
