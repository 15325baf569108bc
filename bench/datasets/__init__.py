"""The data of the benchmarks and of some tests: bundled, and made up."""
