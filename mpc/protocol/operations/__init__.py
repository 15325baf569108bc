"""What a computation on shares can do, one idea per file; `mpc.protocol.computation.Computation` has all of it."""
