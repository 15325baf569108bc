"""Measures what is left of a result under noise, and what single analyses take."""
