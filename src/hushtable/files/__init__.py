"""File access: atomic writes, private scratch folders, YAML, and memory limits."""
