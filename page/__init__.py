"""What a running service shows over HTTP: metrics, and a page to look at."""
