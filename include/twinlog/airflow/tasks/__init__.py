"""The work of each Dag's tasks, between Airflow and the steps."""
