"""Batches of devices' sealed answers: the open questions, the answers on disk, and how parties are asked to open."""
