"""Proofs that hold against members that deviate: a public coin, inner products of shared vectors, proven products."""
