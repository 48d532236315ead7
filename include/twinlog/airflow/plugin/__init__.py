"""The page that twinlog adds to Airflow's UI: every flow, its topics, its lag, its last cycle."""
