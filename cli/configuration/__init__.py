"""What commands read before they do anything: the configuration of a party, and its ledger."""
