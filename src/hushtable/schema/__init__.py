"""Schemas: what is public about a private table."""

from hushtable.schema.columns import MAX_COLUMN_SIZE, Identifier, Value
from hushtable.schema.listed import Boolean, Categorical
from hushtable.schema.moments import Date, OnCalendar, Time, Timestamp
from hushtable.schema.numbers import Decimal, Duration, Integer, Number, Numeric, OnGrid
from hushtable.schema.table import Column, Schema

__all__ = [
    "MAX_COLUMN_SIZE",
    "Boolean",
    "Categorical",
    "Column",
    "Date",
    "Decimal",
    "Duration",
    "Identifier",
    "Integer",
    "Number",
    "Numeric",
    "OnCalendar",
    "OnGrid",
    "Schema",
    "Time",
    "Timestamp",
    "Value",
]
