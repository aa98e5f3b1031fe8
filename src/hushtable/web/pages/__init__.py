"""Screens of the workbench and the release explorer; most have their own module."""
