"""Whether one member reaches another: the attempt, what it found, and what mends it."""
