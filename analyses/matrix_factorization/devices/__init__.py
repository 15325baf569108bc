"""The local setting as a question to devices: each holds the ratings of one user."""
