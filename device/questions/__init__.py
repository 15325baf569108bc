"""How a device answers questions once: one module per kind that is answered by one message."""
