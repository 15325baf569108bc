"""A device in batches: one sealed answer of each, for compute parties that its owner pins."""
