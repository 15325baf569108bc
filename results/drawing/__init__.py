"""Pictures as data, and the one renderer of them: SVG, from which PNG files are made."""
