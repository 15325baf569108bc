"""Matrix factorization over parties or devices, with noise on masked sums: the parts that run in one process."""
