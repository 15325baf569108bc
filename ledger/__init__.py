"""The privacy ledger of a party: its entries, what they add up to, and where they lie."""
