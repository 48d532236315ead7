"""The steps that a Spark application can run; each is imported alone, while Spark starts."""
