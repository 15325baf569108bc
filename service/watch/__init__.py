"""What a running service counts about itself, and where it shows it."""
