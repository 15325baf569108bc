"""Databases of stores: one SQL text (`database`) for files (`sqlite`) and servers (`postgres`)."""
