"""Measures whole federations: jobs over services, and what services cost at rest."""
