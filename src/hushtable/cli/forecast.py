"""Text output of a method's forecast, in ``plan`` and in ``publish`` before the charge."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hushtable.cli.screen import console

if TYPE_CHECKING:
    import hushtable as ht


def show_forecast(forecast: ht.Forecast) -> None:
    """Print the forecast of a release."""
    console.print("Expected", style="bold")
    for what, figure in forecast.lines.items():
        console.print(f"  {what}: {written(figure)}")
    console.print(f"  memory: about {forecast.memory_mb:,.0f} MB")


def written(figure: str | float) -> str:
    """Format a number with few digits, from 10^12 on as a power of ten; a text stays unchanged.

    Examples
    --------
    >>> written(8.10545e-16), written(0.25), written(1234.5678), written(3.2e25)
    ('almost 0', '0.25', '1,234.57', 'about 3 x 10^25')
    >>> written(10**400)
    'about 1 x 10^400'
    """
    if isinstance(figure, str):
        return figure
    if 0 < abs(figure) < 1e-4:
        return "almost 0"
    if abs(figure) < 1e12:
        return f"{figure:,.6g}" if abs(figure) < 1e6 else f"{figure:,.0f}"
    # Integers may exceed the range of a float.
    power = math.floor(math.log10(abs(figure)))
    first = round(10 ** (math.log10(abs(figure)) - power))
    sign = "-" if figure < 0 else ""
    return f"about {sign}{first} x 10^{power}"
