"""The owner's tables.

`config` says what is public about a table, `source` and its kinds where its rows lie, `table` what jobs get of it.
"""
