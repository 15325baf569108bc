"""From a table's rows to shared integers: quantisation, norms, alignment, slots."""
