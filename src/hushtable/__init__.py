"""Publish tables about people with a privacy promise that is written down and checked."""

__version__ = "0.1.0"
