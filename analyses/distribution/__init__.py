"""The distribution of a number: estimates from local responses."""
