"""Stands in for the client of the API server: its requests lead nowhere."""

import sys
from unittest.mock import MagicMock

client, config = MagicMock(), MagicMock()
sys.modules |= {"kubernetes.client": client, "kubernetes.config": config}
