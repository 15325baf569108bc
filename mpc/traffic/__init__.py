"""What protocols send, walked through without running them: flights, and bytes of each pair of members."""
