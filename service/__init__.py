"""What every service process needs: settings, logs, identity, TLS, permissions, the table of errors."""
