"""How values may be spelled in a table: which spellings are one value, and which are refused as unclear."""
