"""The page twinlog adds to Airflow's UI: every flow, its topics, how far behind it is, its last cycle."""
