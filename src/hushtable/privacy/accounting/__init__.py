"""Privacy accounting of one run: the costs of its queries, compared with its promise."""
