"""Schemas that kafka-python lacks, as Apache Kafka writes them (clients/src/main/resources/common/message)."""
