"""Graphs: edge lists in, degree sequences that protect whole nodes, synthetic graphs out."""
