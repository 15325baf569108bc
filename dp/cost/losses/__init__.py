"""Privacy losses: their distributions, and the sums and integrals behind them, kind of noise by kind of noise."""
