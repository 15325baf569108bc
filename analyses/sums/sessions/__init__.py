"""Masked sums as a stage of a job: one sum, or a series of them, over the links of a session."""
