"""A synthetic table from released second moments: which rows have the one- and two-way marginals that they tell."""
