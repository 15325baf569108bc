"""Local mechanisms: each respondent randomizes its own answer, in integers, before the answer leaves it."""
