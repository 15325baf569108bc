"""What a party keeps after a job, and what it recommends from that. Nothing of it is sent."""
