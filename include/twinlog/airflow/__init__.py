"""What Airflow needs: task functions, operator, retry rules, plugin. Nothing else imports airflow."""
