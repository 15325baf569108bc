"""The owner's tables and how they are read."""
