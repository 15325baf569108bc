"""gRPC between members: identities and TLS, frames and flow control, channels and servers, one table of errors."""
