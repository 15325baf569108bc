"""What others do, for comparison only: pooled tables, and noise of floats, whose low bits show the data [Mironov12]."""
