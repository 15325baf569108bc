"""Sums over devices by one message per device: shares for compute parties, which add them up and open once."""
