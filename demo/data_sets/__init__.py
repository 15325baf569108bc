"""What the parties of the demos hold: real tables, split as their owners would have them."""
