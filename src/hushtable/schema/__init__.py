"""Schemas: what is public about a private table."""

from hushtable.schema.calendar import CalendarColumn, Date, Time, Timestamp
from hushtable.schema.categorical import Boolean, Categorical
from hushtable.schema.column import MAX_COLUMN_SIZE, Identifier, Value
from hushtable.schema.numeric import Decimal, Duration, GridColumn, Integer, Number, Numeric
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
