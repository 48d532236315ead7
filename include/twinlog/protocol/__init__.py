"""Requests and answers of Kafka's protocol, over connections of our own."""
