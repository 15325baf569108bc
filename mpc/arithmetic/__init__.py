"""Arithmetic on shares without a message in sight: residues, kernels, Shamir sharing, opening."""
