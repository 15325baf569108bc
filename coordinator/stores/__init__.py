"""Questions to devices and their answers, as a store keeps them."""
