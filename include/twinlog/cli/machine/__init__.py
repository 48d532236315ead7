"""Commands about this machine: demo, brokers, Spark, files for Airflow."""
