"""Where a party's rows are shared and multiplied: in its own process, or by workers on one host or several."""
