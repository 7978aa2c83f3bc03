"""Startup, login, cleanup and probes."""

import unittest
from unittest import mock

from setpoint import kopf
from setpoint._engine import memo as memos
from setpoint._engine import operator
from setpoint._engine.operator import StartError
from tests.harness import Script, example


class Settings(unittest.TestCase):
    def test_unknown_names_are_refused(self) -> None:
        settings = kopf.OperatorSettings()
        with self.assertRaisesRegex(AttributeError, r"settings\.posting\.levle: no such setting; did you mean level\?"):
            settings.posting.levle = 3  # type: ignore[attr-defined]
        with self.assertRaisesRegex(kopf.PermanentError, "settings.scanning.xyz: no such setting; there are disabled"):
            settings.scanning.xyz = 3  # type: ignore[attr-defined]
        with self.assertRaisesRegex(AttributeError, "settings.postings: no such setting; did you mean posting"):
            settings.postings = None  # type: ignore[attr-defined]
        settings.peering.namespaced = True
        settings.execution.max_workers = 2
        settings.execution.executor.shutdown()


class Activities(unittest.TestCase):
    def test_order_and_arguments(self) -> None:
        with Script("""
            calls = []
            @kopf.on.startup()
            def first(settings, logger, memo, retry, param, **_):
                memo.shared = calls
                calls.append('first')
            @kopf.on.login()
            async def login(settings, **_): calls.append('login')
            @kopf.on.startup()
            async def second(**_): calls.append('second')
            @kopf.on.cleanup()
            def cleanup(memo, **_): memo.shared.append('cleanup')
            @kopf.on.create('examples')
            def create(memo, **_):
                assert memo.shared is calls
                memo.own = True
            @kopf.on.update('examples')
            def update(memo, **_): return memo.get('own')
        """) as script:
            script.call("create", "Create")
            self.assertEqual(script.call("update", "Update")["status"], {"update": True})
            other = example(metadata={"uid": "other"})
            self.assertEqual(script.call("update", "Update", other), {})
        self.assertEqual(script.names["calls"], ["first", "second", "login", "cleanup"])

    def test_memos_end_some_time_after_their_objects(self) -> None:
        with Script("""
            @kopf.on.create('examples')
            def fn(memo, **_):
                memo.calls = memo.get('calls', 0) + 1
                return memo.calls
        """) as script:
            self.assertEqual(script.call("fn", "Create")["status"], {"fn": 1})
            script.call("forget-memo", "Delete")
            # A handler that is retried while the object waits still has its memo.
            self.assertEqual(script.call("fn", "Create")["status"], {"fn": 2})
            former, memos.LINGER = memos.LINGER, 0.0
            try:
                script.call("forget-memo", "Delete")
            finally:
                memos.LINGER = former
            self.assertEqual(script.call("fn", "Create")["status"], {"fn": 1})

    def test_no_memo_is_kept_that_no_function_reads(self) -> None:
        with Script("""
            @kopf.on.create('examples')
            def fn(**_): ...
        """) as script:
            name = script.declaration()["controllers"][0]["metadata"]["name"]
            script.call("fn", "Create", controller={"metadata": {"name": name}})
            self.assertEqual(script.operator.memos._by_uid, {})

    def test_startup_is_retried(self) -> None:
        with Script("""
            calls = []
            @kopf.on.startup(backoff=0.001)
            def a(retry, **_):
                calls.append(('a', retry))
                if retry < 2: raise ValueError
            @kopf.on.startup()
            def b(**_): calls.append('b')
        """) as script:
            self.assertEqual(script.names["calls"], [("a", 0), "b", ("a", 1), ("a", 2)])

    def test_a_startup_that_fails_for_good_ends_the_process(self) -> None:
        with self.assertRaisesRegex(StartError, r"startup failed: fn \(operator.py:3\): no database"):
            Script("""
                @kopf.on.startup()
                def fn(**_): raise kopf.PermanentError('no database')
            """)

    def test_probes(self) -> None:
        with Script("""
            calls = []
            @kopf.on.probe(id='now')
            def probe(memo, **_):
                calls.append(1)
                return {'n': len(calls)}
            @kopf.on.probe()
            async def other(**_): return 'fine'
        """) as script:
            with mock.patch.object(operator, "PROBE_CACHE", 3600.0):
                for _ in range(2):
                    self.assertEqual(script.request("GET", "/healthz"), (200, {"now": {"n": 1}, "other": "fine"}))

    def test_a_probe_that_fails_is_reported(self) -> None:
        with Script("""
            @kopf.on.probe(retries=1)
            def probe(**_): raise ValueError('odd')
        """) as script:
            status, result = script.request("GET", "/healthz")
        self.assertEqual(status, 200)
        self.assertIn("ValueError: odd", result["error"])


class Declarations(unittest.TestCase):
    def test_mistakes_are_refused_with_the_argument(self) -> None:
        cases = [
            ("@kopf.on.create('x', labels={'a': None})", ValueError, "labels= a: None is no filter; use kopf.PRESENT"),
            ("@kopf.on.create('x', labels={'a': ['b']})", TypeError, "labels= a: must be a string"),
            ("@kopf.on.create('x', annotations='a=b')", TypeError, "annotations= must be a mapping"),
            ("@kopf.on.create('x', labels={('a',): 'b'})", TypeError, "key .* must be a string"),
            ("@kopf.on.create('x', when='yes')", TypeError, "when= must be a function"),
            ("@kopf.on.create('x', value=1)", TypeError, "value= requires field="),
            ("@kopf.on.update('x', field='a', value=1, old=2)", TypeError, "value= excludes"),
            ("@kopf.on.update('x', field=7)", TypeError, "a field is a string"),
            ("@kopf.on.create('x', id=7)", TypeError, "id= must be a string"),
            ("@kopf.on.create('x', retries='3')", TypeError, "retries= must be a number"),
            ("@kopf.on.create('x', timeout=-1)", ValueError, "timeout= must not be negative"),
            ("@kopf.timer('x', interval=0)", ValueError, "interval= must be greater"),
            ("@kopf.on.create()", TypeError, "no kind is given"),
            ("@kopf.on.create('x', unknown=1)", TypeError, "unknown"),
            ("@kopf.on.startup\n", TypeError, ""),
            ("@kopf.on.validate('x', operations=[])", ValueError, "operations= must not be empty"),
        ]
        for decorator, kind, message in cases:
            with self.subTest(decorator), self.assertRaisesRegex(kind, message):
                Script(f"{decorator.strip()}\ndef fn(**_): ...")

    def test_lambdas_partials_methods_and_wrapped_functions_have_ids(self) -> None:
        with Script("""
            import functools
            def fn(x, **_): return x
            def wrap(f):
                @functools.wraps(f)
                def inner(**kwargs): return f(**kwargs)
                return inner
            class Handlers:
                def method(self, **_): return 'method'
            kopf.on.create('examples')(functools.partial(fn, x='partial'))
            kopf.on.update('examples')(wrap(lambda **_: 'wrapped'))
            kopf.on.delete('examples')(Handlers().method)
        """) as script:
            names = list(script.handlers())
            self.assertEqual(names[0], "fn")
            self.assertTrue(names[1].startswith("lambda-operator-py"))
            self.assertEqual(script.call("fn", "Create")["status"], {"fn": "partial"})
            self.assertEqual(list(script.call(names[2], "Delete")["status"].values()), ["method"])
