"""Whom a running service trusts, and how that changes while it runs: lists of revoked certificates, renewals."""
