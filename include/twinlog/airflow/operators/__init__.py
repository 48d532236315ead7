"""Hold the steps that twinlog's Dags run on Spark, and the tasks that walk a failover or ask a person."""
