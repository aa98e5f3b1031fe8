"""What is promised, what has been spent, and the only source of randomness."""
