"""Tables in Spark: executors count, draw noise and write."""
