"""Hold what Airflow needs: task functions, operators, retry rules, the plugin.  No other package imports airflow."""
