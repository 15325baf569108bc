"""Circuits: random programs, and what a program costs as a job."""
