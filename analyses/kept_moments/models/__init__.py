"""Models of released second moments that need more than them, and what they suppose of the rest."""
