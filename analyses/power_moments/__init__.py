"""Moments of a quantity that is spread over the parties."""
