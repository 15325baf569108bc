"""Estimators of how many rows fall into each joint cell of local clusters."""
