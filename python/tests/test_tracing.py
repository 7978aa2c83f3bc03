"""The trace of a call, in functions of all kinds."""

from __future__ import annotations

import unittest

from tests.harness import Script, example

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

SOURCE = """
import setpoint

seen = []

@kopf.on.event("examples")
{kind} function(**_):
    seen.append(setpoint.trace_context())
"""


class TraceContext(unittest.TestCase):
    def test_of_the_call_only(self) -> None:
        traced = {"traceparent": TRACEPARENT, "tracestate": "a=b"}
        for kind in ("def", "async def"):
            with self.subTest(kind), Script(SOURCE.format(kind=kind)) as script:
                (handler,) = script.handlers().values()
                for headers in ({**traced, "accept": "*/*"}, {}):
                    body = {"reason": "Event", "event": "ADDED", "object": example()}
                    self.assertEqual(script.request("POST", handler["webhook"]["url"], body, headers)[0], 200)
                self.assertEqual(script.names["seen"], [traced, {}])
