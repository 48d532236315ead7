"""Ask a cluster by requests of our own what confluent-kafka is asked elsewhere: its wheel has no Kerberos."""
