"""The archive of Spark's classes, with which its JVMs start in half the CPU time."""
