"""Each analysis on real data beside what a trusted third party could do: `make bench-analyses`."""
