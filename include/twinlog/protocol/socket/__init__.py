"""Open sockets to one broker: TLS, logins, bytes in and out."""
