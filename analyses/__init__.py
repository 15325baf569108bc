"""The analyses: one folder each, with its plan, its protocol and what it is compared with."""
