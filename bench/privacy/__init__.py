"""Measures what privacy costs: noise, accounting, the ledger, and the power of audits."""
