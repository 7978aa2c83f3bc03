"""Events of objects."""

import asyncio
import json
import threading
import unittest

from setpoint._serve.message import Request
from setpoint._serve.notifications import Notifications
from setpoint.kopf import OperatorSettings
from setpoint.kopf import info as kopf_info
from tests.harness import Script, example


class Events(unittest.TestCase):
    def call(self, source, settings=None):
        script = Script(source, settings)
        self.addCleanup(script.close)
        response = script.call("fn", "Create", example(metadata={"uid": "uid-1"}))
        lines = [json.loads(line) for line in script.operator.notifications._waiting]
        return response.get("events"), lines

    def test_those_of_the_object_go_with_the_response(self):
        events, lines = self.call("""
            @kopf.on.create('examples')
            def fn(body, **_):
                kopf.info(body, reason="Some Reason", message="m")
                kopf.warn([body], reason="Two")
                kopf.event(body, type="Custom", reason="3 things", message="x" * 2000)
                try:
                    raise ValueError("bad")
                except ValueError:
                    kopf.exception(body, message="oh:")
        """)
        self.assertEqual([], lines)
        self.assertEqual({"type": "Normal", "reason": "SomeReason", "message": "m"}, events[0])
        self.assertEqual({"type": "Warning", "reason": "Two", "message": ""}, events[1])
        self.assertEqual(("Warning", "Things"), (events[2]["type"], events[2]["reason"]))
        self.assertLessEqual(len(events[2]["message"]), 1024)
        self.assertEqual({"type": "Warning", "reason": "ValueError", "message": "oh: bad"}, events[3])

    def test_those_of_other_objects_are_notified(self):
        events, lines = self.call("""
            other = {'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'p', 'namespace': 'ns', 'uid': 'u'}}
            @kopf.on.create('examples')
            def fn(body, **_):
                kopf.info([other, {'apiVersion': 'v1', 'kind': 'Event'}], reason="Seen", message="m")
        """)
        self.assertIsNone(events)
        event = {"type": "Normal", "reason": "Seen", "message": "m"}
        self.assertEqual(
            [{"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": "ns", "uid": "u", "event": event}], lines
        )

    def test_many_events(self):
        events, lines = self.call("""
            @kopf.on.create('examples')
            def fn(body, **_):
                for i in range(120):
                    kopf.info(body, reason="Seen", message=str(i))
        """)
        self.assertEqual((50, 70), (len(events), len(lines)))

    def test_events_of_a_handler_that_fails(self):
        events, _ = self.call("""
            @kopf.on.create('examples')
            def fn(body, **_):
                kopf.info(body, reason="Tried")
                raise kopf.TemporaryError("later")
        """)
        self.assertEqual("Tried", events[0]["reason"])

    def test_settings(self):
        source = """
            @kopf.on.create('examples')
            def fn(body, **_):
                kopf.event(body, type="Normal", reason="Any")
                kopf.info(body, reason="Info")
                kopf.warn(body, reason="Warn")
        """
        settings = OperatorSettings()
        settings.posting.level = 30
        self.assertEqual(["Any", "Warn"], [event["reason"] for event in self.call(source, settings)[0]])
        settings.posting.enabled = False
        self.assertEqual((None, []), self.call(source, settings))

    def test_logs_as_events(self):
        settings = OperatorSettings()
        settings.posting.loggers = True
        events, _ = self.call(
            """
            @kopf.on.create('examples')
            def fn(logger, **_):
                logger.debug("no")
                logger.warning("look at %s", 1)
            """,
            settings,
        )
        self.assertIn({"type": "Warning", "reason": "Logging", "message": "look at 1"}, events)

    def test_from_another_thread(self):
        script = Script("")
        self.addCleanup(script.close)
        thread = threading.Thread(target=kopf_info, args=[example()], kwargs={"reason": "Seen"})
        thread.start()
        thread.join()
        self.assertEqual(1, len(script.operator.notifications._waiting))

    def test_an_object_without_a_name(self):
        script = Script("")
        self.addCleanup(script.close)
        with self.assertLogs("kopf", "WARNING"):
            kopf_info({"kind": "Pod"}, reason="Seen")
        self.assertFalse(script.operator.notifications._waiting)

    def test_without_an_operator(self):
        with self.assertRaisesRegex(LookupError, "running operator"):
            kopf_info(example(), reason="Seen")

    def test_what_is_no_object(self):
        script = Script("")
        self.addCleanup(script.close)
        with self.assertRaisesRegex(TypeError, "an event is for an object"):
            kopf_info(7, reason="Seen")


class Stream(unittest.TestCase):
    def test_lines_reach_the_newest_connection(self):
        async def main():
            notifications = Notifications()
            notifications.send({"name": "before"})
            first = (await notifications.route(Request("GET", "/notifications"), "")).stream
            self.assertEqual(b"\n", await first.__anext__())
            self.assertEqual(b'{"name":"before"}\n', await first.__anext__())
            second = (await notifications.route(Request("GET", "/notifications"), "")).stream
            with self.assertRaises(StopAsyncIteration):
                await first.__anext__()
            self.assertEqual(b"\n", await second.__anext__())
            threading.Timer(0.01, notifications.send, [{"name": "later"}]).start()
            self.assertEqual(b'{"name":"later"}\n', await second.__anext__())
            notifications.close()
            with self.assertRaises(StopAsyncIteration):
                await second.__anext__()

        asyncio.run(main())

    def test_heartbeat(self):
        from setpoint._serve import notifications as module

        self.addCleanup(setattr, module, "HEARTBEAT", module.HEARTBEAT)
        module.HEARTBEAT = 0.001

        async def main():
            stream = (await Notifications().route(Request("GET", "/notifications"), "")).stream
            for _ in range(3):
                self.assertEqual(b"\n", await stream.__anext__())

        asyncio.run(main())

    def test_a_bounded_number_of_lines_waits(self):
        from setpoint._serve import notifications as module

        self.addCleanup(setattr, module, "MAX_WAITING", module.MAX_WAITING)
        module.MAX_WAITING = 2
        notifications = Notifications()
        with self.assertLogs("setpoint._serve.notifications", "WARNING"):
            for i in range(3):
                notifications.send({"name": i})
        self.assertEqual([b'{"name":1}\n', b'{"name":2}\n'], list(notifications._waiting))


if __name__ == "__main__":
    unittest.main()
