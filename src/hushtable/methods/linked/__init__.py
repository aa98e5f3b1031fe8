"""Linked tables: persons and their child tables, under one promise."""
