"""Real Kafka brokers (and MM2) from Maven jars, without Docker: for the demo, the tests and the bench."""
