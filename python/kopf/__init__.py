"""Kopf's public names, served by Setpoint: see setpoint.kopf."""

from setpoint.kopf import *  # noqa: F403
from setpoint.kopf import __all__, on

__all__ = [*__all__]
