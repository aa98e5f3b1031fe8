"""Methods that the papers compare against."""
