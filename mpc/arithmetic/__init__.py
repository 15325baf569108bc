"""Local arithmetic on shares, without messages: residues, kernels, Shamir sharing, opening."""
