"""Kopf's tools for tests: see setpoint.kopf.testing."""

from setpoint.kopf.testing import *  # noqa: F403
