"""The demos: whole federations on this machine, on bundled data."""
