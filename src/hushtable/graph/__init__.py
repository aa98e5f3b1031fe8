"""Graphs: degree sequences with node-level privacy, and synthetic graphs made from them."""
