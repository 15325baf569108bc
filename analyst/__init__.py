"""What an analyst's program uses to speak with a federation's coordinator."""
