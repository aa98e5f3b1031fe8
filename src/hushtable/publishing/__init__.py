"""Publishing: from a private table, linked tables or a graph to a release."""
