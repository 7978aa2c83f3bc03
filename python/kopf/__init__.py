"""Kopf's public names, served by Setpoint: see setpoint.kopf."""

from kopf import _private
from setpoint.kopf import *  # noqa: F403
from setpoint.kopf import __all__, __commit_id__, __version__, __version_tuple__, on

__all__ = [*__all__]

_private.register()
