"""Masked sums with dropout recovery [Bonawitz17, Bell20]: the coordinator learns the survivors' sum and no vector.

Five stages: advertise signed keys, share keys, masked input, signed survivors, unmask. All here is pure: the machines
in `member` and `coordinator` take messages and return messages; services carry them. `simulation.run_locally` is the
whole protocol as one loop.
"""
