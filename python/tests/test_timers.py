"""Timers and raw events."""

import unittest

from setpoint._engine.errors import DeclarationError
from tests.harness import Script, example


class Timers(unittest.TestCase):
    def test_schedules(self) -> None:
        cases = [
            ("interval=3600.0", {"every": "3600s", "initialDelay": "0s"}),
            ("interval=0.2", {"every": "1s", "initialDelay": "0s"}),
            ("interval=5, initial_delay=2.5", {"every": "5s", "initialDelay": "2500ms"}),
            ("interval=5, sharp=True", {"every": "5s", "initialDelay": "0s", "sharp": True}),
            ("interval=5, idle=10", {"every": "5s", "initialDelay": "0s", "idle": "10s"}),
            ("idle=10", {"reasons": ["Create", "Update"], "debounce": "10s"}),
            ("", {"every": "87600h", "initialDelay": "0s"}),
        ]
        for options, expected in cases:
            with self.subTest(options), Script(f"""
                @kopf.timer('examples', {options})
                def tick(**_): ...
            """) as script:
                handler = script.handlers()["tick"]
                self.assertEqual({key: handler[key] for key in handler if key not in ("name", "webhook")}, expected)

    def test_call(self) -> None:
        with Script("""
            @kopf.on.timer('examples', interval=5, field='spec.size', value=1)
            async def tick(spec, retry, patch, **_):
                patch.status['size'] = spec['size']
                return retry
        """) as script:
            name = next(iter(script.handlers()))
            self.assertEqual(script.call(name, "Timer", attempt=2)["status"], {"size": 1, "tick/spec.size": 2})
            self.assertEqual(script.call(name, "Timer", example(spec={})), {"applicable": False})

    def test_a_result_without_a_json_form_waits_for_the_next_time(self) -> None:
        with Script("""
            @kopf.timer('examples', interval=5)
            def tick(**_): return object()
        """) as script:
            error = script.call("tick", "Timer")["error"]
        self.assertRegex(error["message"], "its result cannot be written: status.tick: .* has no JSON form")
        self.assertTrue(error["permanent"])

    def test_an_initial_delay_may_be_a_function(self) -> None:
        with Script("""
            @kopf.timer('examples', interval=5, initial_delay=lambda spec, **_: spec['size'] * 7)
            def tick(**_): return 1
        """) as script:
            self.assertEqual(script.call("tick", "Timer"), {"retryAfterSeconds": 7})
            self.assertEqual(script.call("tick", "Timer")["status"], {"tick": 1})

    def test_a_timer_that_waits_for_idleness_waits_after_the_creation_too(self) -> None:
        with Script("""
            @kopf.timer('examples', idle=60)
            def tick(**_): return 1
        """) as script:
            self.assertIn("status", script.call("tick", "Create", example(metadata={"creationTimestamp": "2020-01-01T00:00:00Z"})))
            future = script.call("tick", "Create", example(metadata={"creationTimestamp": "2120-01-01T00:00:00Z"}))
            self.assertGreater(future["retryAfterSeconds"], 60)

    def test_several_schedules_of_one_function_are_refused(self) -> None:
        with self.assertRaisesRegex(DeclarationError, "different schedules"):
            Script("""
                @kopf.timer('examples', interval=5)
                @kopf.timer('examples', interval=6)
                def tick(**_): ...
            """)


class Events(unittest.TestCase):
    def test_types(self) -> None:
        with Script("""
            @kopf.on.event('examples')
            def fn(type, event, body, **_):
                return [type, event['type'], event['object']['spec'] == body['spec']]
        """) as script:
            for wire, expected in (("Listed", None), ("Added", "ADDED"), ("Modified", "MODIFIED"), ("Deleted", "DELETED")):
                with self.subTest(wire):
                    self.assertEqual(script.call("fn", "Event", event=wire)["status"], {"fn": [expected, expected, True]})

    def test_errors_are_ignored(self) -> None:
        with Script("""
            @kopf.on.event('examples')
            def fn(patch, **_):
                patch.status['tried'] = True
                raise kopf.TemporaryError('x')
        """) as script, self.assertLogs("kopf.objects", "ERROR"):
            self.assertEqual(script.call("fn", "Event", event="Added"), {"status": {"tried": True}})
