"""The figures of [SPCA24], measured again: `python -m bench.pca_figures` writes `docs/analyses/pca-figures.md`."""
