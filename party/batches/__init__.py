"""A party's part in batches of devices' answers: keys, agreement on the devices, its share of their sum."""
