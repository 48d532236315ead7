"""What Airflow needs: hook, task functions, retry rules, plugin parts.  The only package that imports airflow."""
