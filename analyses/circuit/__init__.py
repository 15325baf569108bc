"""Circuits of an analyst's own: programs on the rows of a joint table, of which sums are released."""
