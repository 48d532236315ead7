"""Operators that submit the jobs to Spark."""
