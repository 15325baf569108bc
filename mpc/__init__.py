"""The protocols of secure computation, pure: no sockets, files, clock or logging."""
