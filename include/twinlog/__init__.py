"""twinlog: Kafka disaster-recovery replication on Airflow and Spark."""

__version__ = "0.3.0"
