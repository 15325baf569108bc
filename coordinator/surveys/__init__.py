"""Surveys of devices: the open questions, and the responses on the coordinator's disk."""
