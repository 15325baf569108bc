"""The analyses: one file each, with what a party does, what the coordinator does and what it costs."""
