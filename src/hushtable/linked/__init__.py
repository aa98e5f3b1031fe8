"""Tables that belong together: persons and what hangs on them, under one promise."""
