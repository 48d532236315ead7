"""What confluent-kafka does elsewhere, by requests of our own: for a login that its wheel has not (Kerberos)."""
