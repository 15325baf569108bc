"""Checks of a result that need no party, no coordinator and no network, by code of its own."""
