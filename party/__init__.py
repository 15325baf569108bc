"""The party service: it stands beside the data and does a party's part of every job."""
