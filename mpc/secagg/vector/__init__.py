"""From real vectors to packed elements of a group, and from the sum of all back: public rules, no secret."""
