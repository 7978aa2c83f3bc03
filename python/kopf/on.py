"""Kopf's decorators: see setpoint.kopf.on."""

from setpoint.kopf.on import *  # noqa: F403
