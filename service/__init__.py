"""Common parts of all service processes: settings, logs, identity, TLS, permissions, the table of errors."""

import os

os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
"""Read when gRPC is loaded: its own lines about connections that fail name nobody; `service.errors` does."""
