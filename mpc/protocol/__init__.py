"""Protocols among the members of a job: sharing over a session, products, agreement, keys."""
