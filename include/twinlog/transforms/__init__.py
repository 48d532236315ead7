"""Read Kafka Connect's transforms, and say what they make of a record as bytes."""
