"""What is asked of devices: the question, the question as a coordinator asks it, and its answer, of every kind."""
