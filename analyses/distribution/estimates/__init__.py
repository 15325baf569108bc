"""Estimates of a distribution from randomized responses, with their intervals and distances."""
