"""Finds the `setpoint` binary, and what its arguments are for those of Kopf."""

from __future__ import annotations

import os
import shutil
from typing import Optional
from urllib.parse import urlsplit


class NoBinary(Exception):
    """The `setpoint` binary is not found."""


def find_binary() -> str:
    """Return the path of the `setpoint` binary: $SETPOINT, or that on the PATH."""
    given = os.environ.get("SETPOINT")
    found = shutil.which(given or "setpoint")
    if found is None and given:
        raise NoBinary(f"$SETPOINT is {given}, which is no executable file")
    if found is None:
        raise NoBinary("no setpoint command on the PATH: install it, or set $SETPOINT to its path")
    return os.path.abspath(found)


def address_arguments(liveness: Optional[str]) -> list[str]:
    """Return the flags for a liveness endpoint. Without one, nothing listens, as with Kopf."""
    return ["--address", urlsplit(liveness).netloc, "--liveness", liveness] if liveness else ["--address="]
