"""Revealed matching of many ids: some hundred transfers that are extended, for any number of ids."""
