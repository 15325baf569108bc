"""Matching: which rows of several owners belong together, by what identifies them."""
