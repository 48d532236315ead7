"""`twinlog demo`: two real clusters, a steady stream, the Dag run by a real Airflow, a proof."""
