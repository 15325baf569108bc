"""Proofs that additive shares of a vector keep its public bounds: the prover says one thing, and is gone."""
