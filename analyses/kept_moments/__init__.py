"""Second moments that are released once and asked again."""
