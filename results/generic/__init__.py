"""What the results of all analyses have: fields, tables, lines of text, an analyst's own rows, HTML."""
