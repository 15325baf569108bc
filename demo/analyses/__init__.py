"""What the demos of analyses compare and print: one module each, named like its demo."""
