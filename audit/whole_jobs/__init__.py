"""Audits of whole jobs: planned at an epsilon, run by the parties' own code, and replayed on neighbouring tables."""
