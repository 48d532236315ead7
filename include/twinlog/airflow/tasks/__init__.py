"""What the tasks of each Dag do, between Airflow and the steps."""
