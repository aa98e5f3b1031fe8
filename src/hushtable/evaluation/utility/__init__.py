"""What a release is worth: distributions, counts, models."""
