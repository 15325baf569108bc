"""Measurements: speed, memory and traffic of the services, and the utility of what they release."""
