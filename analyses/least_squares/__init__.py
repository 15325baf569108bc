"""Least squares."""
