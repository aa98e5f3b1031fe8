"""Schemas: what is public about a private table."""

from hushtable.schema.columns import MAX_COLUMN_SIZE, Identifier, Value
from hushtable.schema.listed import Boolean, Categorical
from hushtable.schema.moments import CalendarColumn, Date, Time, Timestamp
from hushtable.schema.numbers import Decimal, Duration, GridColumn, Integer, Number, Numeric
from hushtable.schema.table import Column, Schema

__all__ = [
    "MAX_COLUMN_SIZE",
    "Boolean",
    "CalendarColumn",
    "Categorical",
    "Column",
    "Date",
    "Decimal",
    "Duration",
    "GridColumn",
    "Identifier",
    "Integer",
    "Number",
    "Numeric",
    "Schema",
    "Time",
    "Timestamp",
    "Value",
]
