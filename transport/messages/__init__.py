"""Messages between the members of a job: frames, what takes them in, what sends them, and sessions over both."""
