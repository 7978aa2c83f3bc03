"""Sub-handlers: their progress, results and errors."""

import json
import unittest
from typing import Any
from unittest import mock

from setpoint.kopf import _subhandlers
from tests.harness import Script, example


class Subhandlers(unittest.TestCase):
    def setUp(self) -> None:
        # On a slow machine, all parts are called at once too.
        patch = mock.patch.object(_subhandlers, "STORE_AFTER", 3600.0)
        patch.start()
        self.addCleanup(patch.stop)

    def test_parts_are_called_in_their_order(self) -> None:
        with Script("""
            calls = []
            @kopf.on.create('examples')
            def parent(spec, **_):
                for item in ('a', 'b'):
                    @kopf.subhandler(id=item)
                    def part(item=item, name=None, retry=None, **_):
                        calls.append((item, name, retry))
                        return {'done': item}
                calls.append('parent')
                return 'all'
        """) as script:
            response = script.call("parent", "Create")
            self.assertEqual(script.names["calls"], ["parent", ("a", "one", 0), ("b", "one", 0)])
        self.assertEqual(response, {"status": {"parent": "all", "parent/a": {"done": "a"}, "parent/b": {"done": "b"}}})

    def test_only_those_that_failed_are_called_again(self) -> None:
        with Script("""
            calls = []
            @kopf.on.create('examples')
            async def parent(retry, **_):
                calls.append(('parent', retry))
                for item in 'abc':
                    async def part(item=item, retry=0, **_):
                        calls.append((item, retry))
                        if item == 'b' and retry < 1: raise kopf.TemporaryError('not yet', delay=0)
                        return item
                    kopf.register(part, id=item)
                return 'all'
        """) as script:
            first = script.call("parent", "Create")
            self.assertEqual(first["error"], {"message": "parent/b: not yet"})
            self.assertEqual(first["status"], {"parent/a": "a", "parent/c": "c"})
            self.assertEqual(first["progress"]["done"], ["parent/a", "parent/c"])
            second = script.call("parent", "Create", progress=first["progress"], attempt=1)
            calls = script.names["calls"]
        self.assertEqual(second, {"status": {"parent": "all", "parent/b": "b"}})
        self.assertEqual(calls, [("parent", 0), ("a", 0), ("b", 0), ("c", 0), ("parent", 1), ("b", 1)])

    def test_a_delay_is_kept(self) -> None:
        with Script("""
            @kopf.on.create('examples')
            def parent(**_):
                @kopf.subhandler()
                def part(**_): raise kopf.TemporaryError('later', delay=600)
        """) as script:
            first = script.call("parent", "Create")
            second = script.call("parent", "Create", progress=first["progress"], attempt=1)
        self.assertEqual(first["retryAfterSeconds"], 600)
        self.assertNotIn("error", second)
        self.assertGreater(second["retryAfterSeconds"], 590)
        self.assertEqual(list(second["progress"]["pending"]), ["parent/parent.<locals>.part"])
        self.assertEqual(second["progress"]["pending"]["parent/parent.<locals>.part"]["retries"], 1)

    def test_an_edit_brings_a_part_forward(self) -> None:
        with Script("""
            calls = []
            @kopf.on.create('examples')
            def parent(patch, **_):
                patch.spec['seen'] = True
                @kopf.subhandler(retries=2)
                def part(retry, spec, **_):
                    calls.append((retry, spec['field']))
                    if spec['field'] != 'right': raise kopf.TemporaryError('wrong', delay=600)
        """) as script:
            spec, progress = {"field": "wrong"}, None
            for field, seen in (("wrong", False), ("wrong", True), ("other", True), ("right", True)):
                spec = {"field": field, **({"seen": True} if seen else {})}
                response = script.call("parent", "Create", object=example(spec=spec), progress=progress, attempt=1)
                progress = response.get("progress")
                if field == "other":
                    self.assertGreater(response["retryAfterSeconds"], 590)
            calls = script.names["calls"]
        # What the handler itself patches is no edit, and the calls of edits use up no retry.
        self.assertEqual(calls, [(0, "wrong"), (1, "other"), (1, "right")])
        self.assertIsNone(progress)

    def test_attempts_are_those_of_all_calls(self) -> None:
        with Script("""
            calls = []
            @kopf.on.create('examples')
            def parent(retry, started, **_):
                calls.append((retry, started.isoformat()))
                @kopf.subhandler()
                def part(**_): raise kopf.TemporaryError('later', delay=0)
        """) as script:
            first = script.call("parent", "Create", attempt=2, firstAttempt="2026-01-02T03:04:05Z")
            script.call("parent", "Create", progress=first["progress"], attempt=3, firstAttempt="2026-01-02T03:05:05Z")
            calls = script.names["calls"]
        self.assertEqual(calls, [(2, "2026-01-02T03:04:05+00:00"), (3, "2026-01-02T03:04:05+00:00")])

    def test_a_part_that_gave_up_is_done_and_reported(self) -> None:
        with Script("""
            @kopf.on.create('examples')
            def parent(**_):
                @kopf.subhandler(id='part', retries=1)
                def part(**_): raise ValueError('odd')
                @kopf.subhandler(id='never')
                def never(**_): raise kopf.PermanentError('no')
                return 'all'
        """) as script:
            response = script.call("parent", "Create")
        self.assertEqual(response["status"], {"parent": "all"})
        self.assertEqual([event["type"] for event in response["events"]], ["Warning", "Warning"])
        self.assertIn("ValueError: odd", response["events"][0]["message"])

    def test_execute(self) -> None:
        with Script("""
            def a(param, **_): return 'a'
            async def b(**_): return 'b'
            @kopf.on.create('examples')
            async def parent(**_):
                await kopf.execute(fns={'x': a, 'y': b})
                await kopf.execute(fns=[a])
        """) as script:
            self.assertEqual(script.call("parent", "Create")["status"], {"parent/x": "a", "parent/y": "b", "parent/a": "a"})

    def test_execute_ends_the_parent_until_the_parts_are_done(self) -> None:
        with Script("""
            calls = []
            def failing(retry, **_):
                if not retry: raise kopf.TemporaryError('later', delay=0)
            @kopf.on.create('examples')
            async def parent(**_):
                await kopf.execute(fns=[failing])
                calls.append('after')
        """) as script:
            first = script.call("parent", "Create")
            self.assertEqual(script.names["calls"], [])
            script.call("parent", "Create", progress=first["progress"])
            self.assertEqual(script.names["calls"], ["after"])

    def test_parts_of_parts(self) -> None:
        with Script("""
            @kopf.on.create('examples')
            def parent(**_):
                @kopf.subhandler(id='a')
                def a(**_):
                    @kopf.subhandler(id='b')
                    def b(retry, **_):
                        if not retry: raise kopf.TemporaryError('deep', delay=0)
                        return 1
                    return 2
        """) as script:
            first = script.call("parent", "Create")
            self.assertIn("parent/a/b", first["error"]["message"])
            second = script.call("parent", "Create", progress=first["progress"])
        self.assertEqual(second["status"], {"parent/a/b": 1, "parent/a": 2})

    def test_filters(self) -> None:
        with Script("""
            @kopf.on.update('examples')
            def parent(**_):
                @kopf.subhandler(id='size', field='spec.size')
                def size(old, new, **_): return [old, new]
                @kopf.subhandler(id='other', field='spec.other')
                def other(**_): raise AssertionError
                @kopf.subhandler(id='when', when=lambda **_: False)
                def when(**_): raise AssertionError
        """) as script:
            response = script.call("parent", "Update", example(spec={"size": 2}), previousState=example())
        self.assertEqual(response["status"], {"parent/size": [1, 2]})

    def test_long_parts_are_stored_one_by_one(self) -> None:
        with mock.patch.object(_subhandlers, "STORE_AFTER", 0.0), Script("""
            @kopf.on.create('examples')
            def parent(**_):
                for item in 'ab':
                    kopf.register(lambda **_: 1, id=item)
        """) as script:
            self.check_one_by_one(script)

    def check_one_by_one(self, script: Script) -> None:
        progress: Any = None
        done = []
        for _ in range(3):
            response = script.call("parent", "Create", progress=progress)
            progress = response.get("progress")
            done.append(len(response.get("status", {})))
            if progress is None:
                break
            self.assertNotIn("error", response)
        self.assertEqual(done, [1, 1])

    def test_many_parts_fit_the_record(self) -> None:
        with Script("""
            calls = []
            @kopf.on.create('examples')
            def parent(**_):
                for i in range(900):
                    kopf.register(lambda param, **_: calls.append(param), id='a-rather-long-name-of-a-part-%d' % i, param=i)
                for i in range(100):
                    kopf.register(lambda **_: 1/0, id='failing-%d' % i)
        """) as script:
            progress = None
            for _ in range(3):
                progress = script.call("parent", "Create", progress=progress)["progress"]
                self.assertLess(len(json.dumps(progress)), 8192)
            self.assertEqual(len(script.names["calls"]), 900)

    def test_parts_outside_of_a_handler_are_refused(self) -> None:
        with self.assertRaisesRegex(TypeError, "while they run"):
            Script("""
                @kopf.subhandler()
                def part(**_): ...
            """)
        with Script("""
            @kopf.timer('examples', interval=5)
            def tick(**_):
                kopf.register(lambda **_: None, id='x')
        """) as script:
            self.assertIn("sub-handlers are for", script.call("tick", "Timer")["error"]["message"])
