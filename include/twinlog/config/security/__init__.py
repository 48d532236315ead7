"""Let clients connect and log in: TLS, SASL, key stores, for both client libraries."""
