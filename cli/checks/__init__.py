"""Commands that check a claim: of a mechanism, of a result."""
