"""A table that is in Spark: executors count, draw noise and write."""
