"""twinlog's Dags on Airflow, of the file that TWINLOG_CONFIG names."""

from twinlog.airflow import flow_dags

globals().update(flow_dags())
