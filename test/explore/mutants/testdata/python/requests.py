"""Stands in for HTTP: every response is empty."""

from unittest.mock import MagicMock

get, RequestException = MagicMock(), OSError
