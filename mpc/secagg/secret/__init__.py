"""A member's secrets of one round: keys, masks, the sharing that opens them, and seeds of noise in excess."""
