"""The demo: sample producers and groups, the Dag through Airflow, a comparison of both sides."""
