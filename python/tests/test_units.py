"""What a script declares: controllers, handlers and their names."""

import re
import unittest

from setpoint._engine.errors import DeclarationError
from setpoint._engine.units import safe_name
from tests.harness import Script, example


class Names(unittest.TestCase):
    def test_names_that_lose_nothing_have_no_hash(self) -> None:
        self.assertEqual(safe_name("create_fn"), "create-fn")
        self.assertEqual(safe_name("create-fn"), "create-fn")

    def test_other_names_have_one_and_are_names_of_kubernetes(self) -> None:
        for text in ("Create", "fn/spec.size", "_private", "a__b", "lambda:/x.py:1", "ümlaut", "<locals>", "x" * 100, "日本"):
            with self.subTest(text):
                self.assertRegex(safe_name(text), re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z"))
                self.assertLessEqual(len(safe_name(text)), 63)
        self.assertNotEqual(safe_name("fn/a.b"), safe_name("fn/a/b"))


class Declaration(unittest.TestCase):
    def test_stacked_decorators_are_one_handler(self) -> None:
        with Script("""
            @kopf.on.create('examples')
            @kopf.on.update('examples')
            @kopf.on.resume('examples')
            @kopf.on.delete('examples')
            def all_of_it(**_): ...
        """) as script:
            handler = script.handlers()["all-of-it"]
        self.assertEqual(handler["reasons"], ["Create", "Update", "Delete", "Resume"])
        self.assertNotIn("optional", handler)
        self.assertNotIn("conditional", handler)

    def test_one_selector_is_one_controller(self) -> None:
        with Script("""
            @kopf.on.create('kopf.dev', 'v1', 'examples')
            def a(**_): ...
            @kopf.on.create('kopf.dev/v1', 'examples')
            def b(**_): ...
            @kopf.on.create('pods')
            def c(**_): ...
        """) as script:
            controllers = script.declaration()["controllers"]
        self.assertEqual([c["metadata"]["name"] for c in controllers], ["operator-examples-v1-kopf-dev", "operator-pods"])
        self.assertEqual([h["name"] for h in controllers[0]["spec"]["handlers"]], ["a", "b", "kopf-takeover"])

    def test_one_function_of_several_kinds_of_handlers(self) -> None:
        with Script("""
            @kopf.timer('examples', interval=5)
            @kopf.on.create('examples')
            @kopf.on.event('examples')
            def fn(**_): ...
        """) as script:
            self.assertEqual(list(script.handlers()), ["fn-watching", "fn", "fn-timer", "kopf-takeover"])

    def test_one_name_for_two_reasons(self) -> None:
        with Script("""
            @kopf.on.create('examples')
            def fn(**_): ...
            @kopf.on.delete('examples')
            def fn(**_): ...
        """) as script:
            self.assertEqual(list(script.handlers()), ["fn", "fn-delete", "kopf-takeover"])

    def test_two_functions_with_one_id_are_refused(self) -> None:
        with self.assertRaisesRegex(DeclarationError, r"'fn'.*operator.py:3 and operator.py:6.*id="):
            Script("""
                @kopf.on.create('examples')
                def fn(**_): ...

                @kopf.on.create('examples', labels={'a': 'b'})
                def fn(**_): ...
            """)

    def test_static_filters_are_selectors(self) -> None:
        cases = {
            "@kopf.on.create('examples', labels={'a': 'b', 'c': kopf.PRESENT}, annotations={'x/y': 'any text', 'z': kopf.ABSENT})": {
                "labelSelector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]},
                "annotationSelector": {
                    "matchAnnotations": {"x/y": "any text"},
                    "matchExpressions": [{"key": "z", "operator": "DoesNotExist"}],
                },
            },
            "@kopf.on.create('examples', labels={'a': 'b', 'c': lambda value, **_: value != 'x'})": {
                "labelSelector": {"matchLabels": {"a": "b"}}, "conditional": True,
            },
            "@kopf.on.create('examples', labels={'a': 'not a label value'})": {"conditional": True},
            "@kopf.on.create('examples', labels={'a': 'b'})\n@kopf.on.delete('examples', labels={'a': 'c'})": {"conditional": True},
        }
        names = ("labelSelector", "annotationSelector", "conditional")
        for decorators, expected in cases.items():
            with self.subTest(decorators), Script(f"{decorators}\ndef fn(**_): ...") as script:
                handler = script.handlers()["fn"]
                self.assertEqual({name: handler[name] for name in names if name in handler}, expected)

    def test_fields(self) -> None:
        with Script("""
            @kopf.on.update('examples', field='spec.size')
            def a(old, **_): ...
            @kopf.on.field('examples', field=('metadata', 'annotations', 'x.dev/y'))
            def b(**_): ...
            @kopf.on.create('examples', field='spec.size')
            def c(**_): ...
        """) as script:
            handlers = {handler["fields"][0] if "fields" in handler else "none": handler for handler in script.handlers().values()}
        self.assertEqual(set(handlers), {"spec.size", 'metadata.annotations["x.dev/y"]', "none"})
        self.assertEqual(handlers["spec.size"]["previousState"], "Record")

    def test_the_former_state_is_stored_only_for_functions_that_look_at_it(self) -> None:
        with Script("""
            @kopf.on.update('examples')
            def no(spec, **_): return spec
            @kopf.on.update('examples')
            def passes(spec, **kwargs): no(spec, **kwargs)
            @kopf.on.update('examples')
            def reads(**kwargs): return kwargs['diff']
            @kopf.on.update('examples')
            def inner(**_):
                def part(diff, **_): ...
            @kopf.on.update('examples', when=lambda old, **_: True)
            def filters(**_): ...
            @kopf.on.update('secrets')
            def secret(old, **_): ...
            @kopf.on.update(kopf.EVERYTHING)
            def everything(old, **_): ...
        """) as script:
            stored = {name for name, handler in script.handlers().items() if "previousState" in handler}
        self.assertEqual(stored, {"passes", "reads", "inner", "filters"})

    def test_controllers_of_one_kind_are_merged(self) -> None:
        with Script("""
            @kopf.on.create('examples')
            @kopf.on.create('example.com', kopf.EVERYTHING)
            def fn(**_): calls.append('fn')
            @kopf.on.update('example.com', kopf.EVERYTHING)
            def other(**_): calls.append('other')
            @kopf.index('example.com', kopf.EVERYTHING)
            def by_name(name, **_): return {name: 1}
            calls = []
            def make():
                @kopf.on.create('examples', id='other')
                def other(**_): calls.append('clash')
            make()
        """) as script:
            names = [c["metadata"]["name"] for c in script.declaration()["controllers"]]
            examples = next(name for name in names if "everything" not in name)
            path = examples + "+" + next(name for name in names if "everything" in name)
            status, merged = script.request("GET", f"/controllers/{path}")
            self.assertEqual((status, merged["metadata"]["name"], len(merged["selectors"])), (200, examples, 2))
            handlers = {h["name"]: h for h in merged["spec"]["handlers"]}
            clash = next(name for name in handlers if name.startswith("other-"))
            self.assertEqual(set(handlers), {"fn", "other", clash, "kopf-takeover"})
            self.assertEqual(handlers["fn"]["reasons"], ["Create"])
            request = {"reason": "Create", "object": example()}
            for name in ("fn", "other", clash):
                script.request("POST", handlers[name]["webhook"]["url"], request)
            self.assertEqual(script.names["calls"], ["fn", "clash"])
            feed = {"apiVersion": "example.com/v1", "kind": "Example", "first": True, "objects": [example()], "complete": True}
            self.assertEqual(script.request("POST", merged["spec"]["index"]["webhook"]["url"], feed)[0], 200)
            self.assertEqual(list(script.operator.indices["by_name"]), ["one"])
            for unknown in (f"{examples}+{examples}", f"{examples}+none", "none"):
                self.assertEqual(script.request("GET", f"/controllers/{unknown}")[0], 404)

    def test_limits_and_finalizers(self) -> None:
        with Script("""
            @kopf.on.startup()
            def configure(settings, **_):
                settings.persistence.finalizer = 'example.com/done'
            @kopf.on.delete('examples', retries=5, timeout=90, optional=True)
            def fn(**_): ...
        """) as script:
            controller = script.declaration()["controllers"][0]
        self.assertEqual(controller["spec"]["finalizer"], "example.com/done")
        self.assertNotIn("replacedFinalizers", controller["spec"])
        handler = controller["spec"]["handlers"][0]
        self.assertEqual((handler["retries"], handler["retryTimeout"], handler["optional"]), (5, "95s", True))

    def test_controllers_of_one_kind_have_finalizers_of_their_own(self) -> None:
        with Script("""
            @kopf.on.startup()
            def configure(settings, **_):
                settings.persistence.finalizer = 'example.com/done'
            @kopf.on.delete('example.com', 'v1', 'examples')
            def a(**_): ...
            @kopf.on.delete('examples')
            def b(**_): ...
            @kopf.on.delete('others')
            def c(**_): ...
        """) as script:
            finalizers = [c["spec"]["finalizer"] for c in script.declaration()["controllers"]]
        self.assertEqual(finalizers, ["example.com/done", "example.com/done-2", "example.com/done"])

    def test_memos_end_with_their_objects(self) -> None:
        with Script("""
            @kopf.on.create('examples')
            def fn(memo, **_): ...
            @kopf.on.create('others')
            def other(**_): ...
        """) as script:
            first, second = script.declaration()["controllers"]
        self.assertEqual(first["spec"]["handlers"][-1]["name"], "forget-memo")
        self.assertNotEqual(second["spec"]["handlers"][-1]["name"], "forget-memo")
