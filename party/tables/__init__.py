"""The owner's tables.

`config` says what is public about a table, `sources` where its rows are stored, `table` what jobs get of it.
"""
