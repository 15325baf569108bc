"""The integers modulo one prime of 64 bits: what devices prove their vectors in."""
