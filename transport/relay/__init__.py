"""Relays: sealed bytes forwarded between members, some of which accept no connection from outside."""
