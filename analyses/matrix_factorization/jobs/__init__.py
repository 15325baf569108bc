"""What jobs of both forms have in common: their parameters, and the series of masked sums that they plan."""
