"""Copy a lane's ranges: the loop that a Spark task runs."""
