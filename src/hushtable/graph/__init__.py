"""Synthetic graphs and plots made from published degree sequences."""
