"""The `moiety` command."""
