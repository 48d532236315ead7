"""What Airflow needs: task functions, operator, retry rules, plugin.  No other package imports airflow."""
