"""Calls of services over gRPC: channels, requests in chunks, the meaning of answers, and the clients."""
