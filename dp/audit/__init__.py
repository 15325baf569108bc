"""Attempts to show that a claimed cost is false, and mechanisms that serve comparison only."""
