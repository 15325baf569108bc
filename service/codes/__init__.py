"""Codes of errors: the short word in brackets at the end of a text, and what is said of each."""
