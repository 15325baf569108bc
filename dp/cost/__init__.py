"""What a release costs: events, Renyi curves, composition, the privacy report."""
