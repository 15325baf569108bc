"""The questions to devices that a coordinator hosts: what all kinds have in common, and each kind."""
