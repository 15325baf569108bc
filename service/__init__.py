"""Common parts of all service processes: settings, logs, identity, TLS, permissions, the table of errors."""
