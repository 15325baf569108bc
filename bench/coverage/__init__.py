"""How often the intervals that results state hold the truth."""
