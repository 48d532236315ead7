"""Send requests of Kafka's protocol and read the answers, over connections of twinlog's own."""
