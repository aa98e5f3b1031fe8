"""A table that stays where it is: encoded and counted by SQL."""
