"""Embedded Kafka brokers and MirrorMaker 2 from Maven jars."""
