"""Differential privacy: exact noise, what it costs, and the mechanisms that tie the two together.

Pure: no sockets, files, clock or logging; randomness is always an argument.
"""
