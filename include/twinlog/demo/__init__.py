"""`twinlog demo`: two real clusters, a steady stream, the Dag through Airflow's own scheduler, and a proof."""
