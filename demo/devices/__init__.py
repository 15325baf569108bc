"""Demos of devices that only dial out."""
