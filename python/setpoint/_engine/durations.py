"""Durations as Setpoint reads them."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """Return seconds as a duration such as 90s or 250ms; at least one millisecond."""
    milliseconds = max(round(seconds * 1000), 1)
    return f"{milliseconds // 1000}s" if milliseconds % 1000 == 0 else f"{milliseconds}ms"
