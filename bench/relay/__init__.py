"""What relays cost."""
