"""Pattern counts."""
