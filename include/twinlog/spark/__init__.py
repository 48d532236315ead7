"""The Spark session, and the functions that run on executors."""
