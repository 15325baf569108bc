"""Measurements of tables: what reading and describing them takes."""
