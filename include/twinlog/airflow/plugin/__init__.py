"""The pages that twinlog adds to Airflow's UI: every flow, worst first, and a page for each."""
