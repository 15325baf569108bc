"""How texts for people are written: errors with their codes, and points in time."""
