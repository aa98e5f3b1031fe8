"""Reproduction of the figures of the five papers that hushtable implements."""
