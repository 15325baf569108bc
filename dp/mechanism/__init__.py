"""Mechanisms: each draws its noise and states what it costs."""
