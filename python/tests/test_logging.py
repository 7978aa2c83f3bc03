"""Logs of handlers."""

import io
import json
import logging
import unittest
from typing import Any, Optional
from unittest import mock

from setpoint import kopf
from setpoint._engine import logs
from tests.harness import example


class Logs(unittest.TestCase):
    def line(self, message: str, *arguments: Any, error: Optional[Exception] = None, **options: Any) -> str:
        stream = io.StringIO()
        root = logging.getLogger()
        former, level = root.handlers[:], root.level
        try:
            with mock.patch("sys.stderr", stream):
                kopf.configure(**options)
                logs.ObjectLogger(body=example()).info(message, *arguments, exc_info=error)
        finally:
            root.handlers[:], root.level = former, level
        return stream.getvalue().rstrip()

    def test_text(self) -> None:
        self.assertEqual(self.line("%d %%", 7, log_format=kopf.LogFormat.PLAIN), "7 %")
        self.assertEqual(self.line("100%", log_format=kopf.LogFormat.PLAIN, log_prefix=True), "[shop/one] 100%")
        self.assertRegex(self.line("x", log_prefix=None), r"^\[.*\] kopf.objects +\[INFO +\] \[shop/one\] x$")
        self.assertEqual(self.line("x", quiet=True), "")

    def test_json(self) -> None:
        line = json.loads(self.line("a %s", object, log_format=kopf.LogFormat.JSON, log_refkey="ref", error=ValueError("odd")))
        self.assertEqual((line["message"], line["severity"]), ("a <class 'object'>", "info"))
        self.assertEqual(line["ref"], {"apiVersion": "example.com/v1", "kind": "Example", "name": "one", "namespace": "shop", "uid": "uid-1"})
        self.assertIn("ValueError: odd", line["exc_info"])
