"""What an owner is told about a table: which columns lose nearly all of their values. Nobody else hears of it."""
