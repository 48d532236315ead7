"""Adapters over confluent-kafka, one module per resource: frozen values out, our errors raised."""
