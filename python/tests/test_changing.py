"""Handlers of creations, updates, deletions and resumptions."""

import unittest
from typing import Any, Optional

from setpoint._engine.request import NO_EFFECT
from tests.harness import Script, example


def kopf_object(handled: str, **parts: Any) -> dict[str, Any]:
    """Return an object that Kopf has handled."""
    return example(metadata={"annotations": {"kopf.zalando.org/last-handled-configuration": handled}}, **parts)


class Arguments(unittest.TestCase):
    def test_creation(self) -> None:
        with Script("""
            @kopf.on.create('examples', param=7)
            def create_fn(spec, name, namespace, uid, retry, reason, old, new, diff, patch, param, runtime, started,
                          labels, annotations, meta, status, body, resource, memo, logger, **kwargs):
                assert not kwargs, kwargs
                assert runtime.total_seconds() >= 0 and started.tzinfo
                assert meta.name == meta['name'] == body['metadata']['name'] == body.meta.name == name
                assert dict(labels) == dict(annotations) == dict(status) == {}
                patch.spec['seen'] = [namespace, uid, retry, str(reason), param, old, new, resource.plural, resource.kind]
                return {'size': spec['size'], 'diff': diff}
        """) as script:
            response = script.call("create-fn", "Create")
        new = {"spec": {"size": 1}}
        self.assertEqual(response["status"], {"create_fn": {"size": 1, "diff": [["add", [], None, new]]}})
        self.assertEqual(response["patch"]["spec"]["seen"], ["shop", "uid-1", 0, "create", 7, None, new, "examples", "Example"])

    def test_update(self) -> None:
        with Script("""
            @kopf.on.update('examples')
            async def update_fn(old, new, diff, reason, **_):
                return [str(reason), old['spec'], new['spec'], diff]
        """) as script:
            response = script.call("update-fn", "Update", example(spec={"size": 2}), previousState=example())
        expected = ["update", {"size": 1}, {"size": 2}, [["change", ["spec", "size"], 1, 2]]]
        self.assertEqual(response, {"status": {"update_fn": expected}})

    def test_field(self) -> None:
        with Script("""
            @kopf.on.field('examples', field='spec.size')
            def resized(old, new, diff, reason, **_):
                return [str(reason), old, new, diff]
        """) as script:
            name = next(iter(script.handlers()))
            updated = script.call(name, "Update", example(spec={"size": 2}), previousState=example())
            created = script.call(name, "Create")
            absent = script.call(name, "Create", example(spec={}))
        self.assertEqual(updated["status"], {"resized/spec.size": ["update", 1, 2, [["change", [], 1, 2]]]})
        self.assertEqual(created["status"], {"resized/spec.size": ["create", None, 1, [["add", [], None, 1]]]})
        self.assertEqual(absent, {"applicable": False})

    def test_fields_of_the_status_and_beside_the_spec(self) -> None:
        with Script("""
            @kopf.on.update('examples', field='status.phase', new='Created', id='phase')
            def created(old, new, **_): return [old, new]
            @kopf.on.update('examples', field='data', id='data')
            def data(diff, **_): return diff
        """) as script:
            phase = next(name for name, h in script.handlers().items() if h.get("fields") == ["status.phase"])
            data = next(name for name, h in script.handlers().items() if h.get("fields") == ["data"])
            before, after = example(status={"phase": "Creating"}, data={"a": "1"}), example(status={"phase": "Created"}, data={"a": "2"})
            self.assertEqual(script.call(phase, "Update", after, previousState=before)["status"], {"phase/status.phase": ["Creating", "Created"]})
            # The change is seen, so that the next change to Created is one.
            self.assertEqual(script.call(phase, "Update", before, previousState=after), NO_EFFECT)
            self.assertEqual(script.call(data, "Update", after, previousState=before)["status"], {"data/data": [["change", ["a"], "1", "2"]]})

    def test_a_lost_former_state(self) -> None:
        with Script("""
            @kopf.on.update('examples', field='spec.size')
            def resized(old, new, **_): return [old, new]
        """) as script:
            name = next(iter(script.handlers()))
            self.assertEqual(script.call(name, "Update")["status"], {"resized/spec.size": [None, 1]})
            # Setpoint knows that the field has changed, although it is absent now.
            self.assertEqual(script.call(name, "Update", example(spec={}))["status"], {"resized/spec.size": [None, None]})

    def test_deletion_and_resumption_have_the_state_that_was_handled(self) -> None:
        with Script("""
            @kopf.on.resume('examples')
            @kopf.on.delete('examples')
            def fn(old, new, diff, reason, **_):
                return [str(reason), old == new, diff]
        """) as script:
            self.assertEqual(script.call("fn", "Resume")["status"], {"fn": ["resume", True, []]})
            self.assertEqual(script.call("fn", "Delete")["status"], {"fn": ["delete", True, []]})


class Filters(unittest.TestCase):
    def called(self, decorator: str, reason: str, obj: dict[str, Any], previous: Optional[dict[str, Any]] = None) -> Any:
        with Script(f"""
            {decorator}
            def fn(**_): return 'called'
        """) as script:
            response = script.call(next(iter(script.handlers())), reason, obj, previousState=previous)
        return "called" if "called" in str(response) else response

    def test_of_objects(self) -> None:
        labelled = example(metadata={"labels": {"a": "b"}})
        cases = [
            ("@kopf.on.create('examples', labels={'a': 'b'})", labelled, "called"),
            # Setpoint has filtered by these already.
            ("@kopf.on.create('examples', labels={'a': 'c'})", labelled, NO_EFFECT),
            ("@kopf.on.create('examples', labels={'a': lambda value, **_: value in ('b', 'c')})", labelled, "called"),
            ("@kopf.on.create('examples', labels={'x': lambda value, **_: value is None})", labelled, "called"),
            ("@kopf.on.create('examples', annotations={'x': kopf.ABSENT})", labelled, "called"),
            ("@kopf.on.create('examples', annotations={'x': kopf.PRESENT})", labelled, NO_EFFECT),
            ("@kopf.on.create('examples', when=lambda spec, **_: spec['size'] > 1)", labelled, {"applicable": False}),
            ("@kopf.on.create('examples', when=lambda name, namespace, **_: (namespace, name) == ('shop', 'one'))", labelled, "called"),
            ("@kopf.on.create('examples', field='spec.size')", labelled, "called"),
            ("@kopf.on.create('examples', field='spec.other')", labelled, {"applicable": False}),
            ("@kopf.on.create('examples', field='spec.size', value=1)", labelled, "called"),
            ("@kopf.on.create('examples', field='spec.size', value=2)", labelled, {"applicable": False}),
            ("@kopf.on.create('examples', field='spec.size', value=lambda value, **_: value < 2)", labelled, "called"),
            ("@kopf.on.create('examples', field='spec.other', value=kopf.ABSENT)", labelled, "called"),
            ("@kopf.on.create('examples', when=kopf.all_([lambda **_: True, lambda **_: True]))", labelled, "called"),
            ("@kopf.on.create('examples', when=kopf.any_([lambda **_: False, lambda **_: True]))", labelled, "called"),
            ("@kopf.on.create('examples', when=kopf.none_([lambda **_: False, lambda **_: True]))", labelled, {"applicable": False}),
            ("@kopf.on.create('examples', when=kopf.not_(lambda **_: True))", labelled, {"applicable": False}),
        ]
        for decorator, obj, expected in cases:
            with self.subTest(decorator):
                self.assertEqual(self.called(decorator, "Create", obj), expected)

    def test_of_changes(self) -> None:
        one, two, none = example(), example(spec={"size": 2}), example(spec={})
        cases = [
            ("old=1", two, one, "called"),
            ("old=2", two, one, NO_EFFECT),
            ("new=2", two, one, "called"),
            ("new=kopf.ABSENT", none, one, "called"),
            ("old=kopf.ABSENT, new=kopf.PRESENT", one, none, "called"),
            ("old=lambda value, **_: value == 1, new=lambda value, **_: value == 2", two, one, "called"),
            ("value=1", two, one, "called"),
            # The next change may be one for the filter, and counts from this one.
            ("value=3", two, one, NO_EFFECT),
        ]
        for options, new, old, expected in cases:
            with self.subTest(options):
                decorator = f"@kopf.on.update('examples', field='spec.size', {options})"
                self.assertEqual(self.called(decorator, "Update", new, old), expected)

    def test_an_update_is_not_lost_because_a_filter_has_said_no(self) -> None:
        with Script("""
            @kopf.on.update('examples', when=lambda spec, **_: spec['size'] != 2)
            def fn(old, new, **_): return [old['spec'], new['spec']]
        """) as script:
            self.assertEqual(script.handlers()["fn"]["reasons"], ["Update"])
            one, two = example(), example(spec={"size": 2})
            # It is recorded, so that Setpoint calls again when the object is as it was before.
            self.assertEqual(script.call("fn", "Update", two, previousState=one), NO_EFFECT)
            self.assertEqual(script.call("fn", "Update", one, previousState=two)["status"], {"fn": [two["spec"], one["spec"]]})

    def test_an_object_that_another_handler_is_for_is_seen(self) -> None:
        with Script("""
            @kopf.on.create('examples')
            def all(**_): ...
            @kopf.on.create('examples', labels={'a': 'b'})
            def never(**_): raise AssertionError
            @kopf.on.update('examples', labels={'a': 'b'})
            def labelled(diff, **_): return len(diff)
        """) as script:
            handlers = script.handlers()
            for name in ("never", "labelled"):
                self.assertNotIn("labelSelector", handlers[name])
                self.assertEqual(script.call(name, "Create"), {"sideEffects": False})
            after = example(metadata={"labels": {"a": "b"}})
            self.assertEqual(script.call("never", "Update", after, previousState=example()), {"sideEffects": False})
            self.assertEqual(script.call("labelled", "Update", after, previousState=example())["status"], {"labelled": 1})

    def test_before_a_deletion(self) -> None:
        with Script("""
            @kopf.on.delete('examples', when=lambda spec, **_: spec['size'] > 1)
            def fn(**_): raise AssertionError
        """) as script:
            self.assertTrue(script.handlers()["fn"]["conditional"])
            self.assertEqual(script.call("fn", "Match"), {"applicable": False})
            self.assertEqual(script.call("fn", "Match", example(spec={"size": 2})), {"applicable": True})

    def test_the_first_decorator_that_matches_counts(self) -> None:
        with Script("""
            @kopf.on.create('examples', param='small')
            @kopf.on.create('examples', param='large', field='spec.size', value=5, id='fn')
            @kopf.on.update('examples', param='changed')
            def fn(param, **_): return param
        """) as script:
            self.assertEqual(script.call("fn", "Create")["status"], {"fn": "small"})
            self.assertEqual(script.call("fn", "Update", example(spec={"size": 2}), previousState=example())["status"], {"fn": "changed"})

    def test_an_object_of_which_only_updates_are_handled_is_seen(self) -> None:
        with Script("""
            @kopf.on.create('examples', labels={'a': 'b'})
            @kopf.on.update('examples')
            def fn(**_): raise AssertionError
        """) as script:
            self.assertEqual(script.call("fn", "Create"), NO_EFFECT)

    def test_a_filter_that_fails_names_its_handler(self) -> None:
        with Script("""
            @kopf.on.create('examples', when=lambda spec, **_: spec['absent'])
            def fn(**_): ...
        """) as script:
            response = script.call("fn", "Create")
        self.assertRegex(response["error"]["message"], r"Handler .fn.: a filter failed: KeyError: 'absent'")
        self.assertEqual(response["retryAfterSeconds"], 60)


class Errors(unittest.TestCase):
    def respond(self, raised: str, options: str = "", reason: str = "Create", **fields: Any) -> Any:
        with Script(f"""
            import sys
            @kopf.on.create('examples'{options})
            @kopf.on.update('examples'{options})
            @kopf.on.delete('examples'{options})
            def fn(patch, **_):
                patch.status['tried'] = True
                {raised}
        """) as script:
            response = script.call("fn", reason, **fields)
        self.assertEqual(response.pop("status"), {"tried": True})
        return response

    def test_temporary(self) -> None:
        self.assertEqual(
            self.respond("raise kopf.TemporaryError('later', delay=7)"), {"error": {"message": "later"}, "retryAfterSeconds": 7}
        )
        self.assertEqual(self.respond("raise kopf.TemporaryError('later')")["retryAfterSeconds"], 60)
        self.assertGreater(self.respond("raise kopf.TemporaryError('now', delay=0)")["retryAfterSeconds"], 0)
        self.assertGreater(self.respond("raise kopf.TemporaryError('now', delay=None)")["retryAfterSeconds"], 0)

    def test_permanent(self) -> None:
        self.assertEqual(self.respond("raise kopf.PermanentError('never')"), {"error": {"message": "never", "permanent": True}})

    def test_others(self) -> None:
        retried = {"error": {"message": "ValueError: odd"}, "retryAfterSeconds": 60}
        final = {"error": {"message": "ValueError: odd", "permanent": True}}
        self.assertEqual(self.respond("raise ValueError('odd')"), retried)
        self.assertEqual(self.respond("raise ValueError('odd')", ", backoff=5")["retryAfterSeconds"], 5)
        self.assertEqual(self.respond("raise ValueError('odd')", ", errors=kopf.ErrorsMode.PERMANENT"), final)
        self.assertEqual(self.respond("raise ValueError('odd')", ", errors=kopf.ErrorsMode.IGNORED"), {})

    def test_refusals_of_the_api_server_without_headers(self) -> None:
        cases = [
            (422, "Invalid", """ '{"kind": "Status", "message": "spec is immutable"}' """, "ApiException: 422 Invalid: spec is immutable"),
            (502, "Bad Gateway", "b'no upstream'", "ApiException: 502 Bad Gateway: no upstream"),
            (404, "", "''", "ApiException: 404"),
            (0, "connection lost", "None", "ApiException: (0) headers: {'Date': 'now'}"),
        ]
        for status, reason, body, expected in cases:
            with self.subTest(expected):
                attributes = f"{{'status': {status}, 'reason': {reason!r}, 'body': {body.strip()}}}"
                raised = f"raise type('ApiException', (Exception,), {attributes})(\"({status}) headers: {{'Date': 'now'}}\")"
                self.assertEqual(self.respond(raised)["error"]["message"], expected)

    def test_errors_without_a_text(self) -> None:
        for raised in ("kopf.TemporaryError('')", "kopf.TemporaryError(' ', delay=1)", "kopf.TemporaryError()"):
            self.assertEqual(self.respond(f"raise {raised}")["error"]["message"], "TemporaryError")
        self.assertEqual(self.respond("raise kopf.PermanentError('')")["error"]["message"], "PermanentError")

    def test_a_success_that_cannot_be_written_is_none(self) -> None:
        with self.assertLogs("kopf.objects") as logs:
            with Script("@kopf.on.update('examples')\ndef fn(**_): return object()") as script:
                response = script.call("fn", "Update")
        message = "its result cannot be written: status.fn: <object object> is object, which has no JSON form"
        self.assertEqual(response["error"]["message"], message)
        self.assertEqual([record.getMessage() for record in logs.records], [f"Handler 'fn' failed permanently: {message}"])
        with self.assertLogs("kopf.objects") as logs:
            self.respond("pass")
        self.assertEqual([record.getMessage() for record in logs.records], ["Handler 'fn' succeeded."])

    def test_limits(self) -> None:
        self.assertIn("retryAfterSeconds", self.respond("raise ValueError", ", retries=3", attempt=1))
        last = self.respond("raise ValueError('odd')", ", retries=3", attempt=2)["error"]
        self.assertTrue(last["permanent"])
        self.assertRegex(last["message"], "^gave up after 3 attempts: ValueError: odd")
        timeout = self.respond("raise ValueError('odd')", ", timeout=30")["error"]
        self.assertTrue(timeout["permanent"])
        early = self.respond("raise ValueError", ", timeout=90, backoff=1", attempt=1, firstAttempt="2020-01-01T00:00:00.000000Z")
        self.assertTrue(early["error"]["permanent"])

    def test_giving_up_a_creation_ends_it(self) -> None:
        raised = [
            ("", "raise kopf.PermanentError('cannot')"),
            (", errors=kopf.ErrorsMode.PERMANENT", "raise ValueError('cannot')"),
            (", retries=1", "raise ValueError('cannot')"),
            (", timeout=1", "raise kopf.TemporaryError('cannot')"),
        ]
        for options, error in raised:
            for others in ("", "@kopf.on.resume('examples')", "@kopf.on.delete('examples')"):
                with self.subTest(options=options, others=others), Script(f"""
                    {others}
                    @kopf.on.create('examples'{options})
                    def fn(patch, **_):
                        patch.status['tried'] = True
                        {error}
                """) as script:
                    response = script.call("fn", "Create")
                    self.assertNotIn("error", response)
                    self.assertEqual(response["status"], {"tried": True})
                    self.assertEqual(response["events"][0]["type"], "Warning")
                    self.assertRegex(response["events"][0]["message"], "'fn' gave up, and is not called again for the object: .*cannot")

    def test_giving_up_a_field_leaves_it_to_the_next_edit(self) -> None:
        with Script("""
            @kopf.on.field('examples', field='spec')
            def fn(**_): raise kopf.PermanentError('cannot')
        """) as script:
            (name,) = (name for name in script.handlers() if name.startswith("fn"))
            self.assertTrue(script.call(name, "Create")["error"]["permanent"])

    def test_giving_up_a_deletion_lets_the_object_go(self) -> None:
        response = self.respond("raise kopf.PermanentError('cannot')", reason="Delete")
        self.assertNotIn("error", response)
        self.assertEqual(response["events"][0]["type"], "Warning")
        self.assertIn("cannot", response["events"][0]["message"])
        self.assertIn("error", self.respond("raise kopf.TemporaryError('later')", reason="Delete"))

    def test_logs_show_the_lines_of_the_author(self) -> None:
        for raised in ("1 / 0", "sys.exit(1)"):
            with self.subTest(raised), self.assertLogs("kopf.objects", "ERROR") as logs:
                self.respond(raised)
                self.assertIn("operator.py", logs.output[0])
                self.assertNotIn("invocation.py", logs.output[0])

    def test_the_process_lives_on(self) -> None:
        for raised in ("sys.exit(3)", "raise SystemExit", "raise KeyboardInterrupt", "raise StopIteration", "raise GeneratorExit"):
            with self.subTest(raised):
                response = self.respond(raised)
                self.assertEqual(response["retryAfterSeconds"], 60)
        self.assertRegex(self.respond("sys.exit(3)")["error"]["message"], r"called sys.exit\(3\), which does not end the operator")

    def test_the_process_lives_on_after_async_handlers(self) -> None:
        for raised in ("sys.exit(3)", "raise KeyboardInterrupt", "raise asyncio.CancelledError", "raise StopIteration"):
            with self.subTest(raised), Script(f"""
                import asyncio, sys
                @kopf.on.create('examples')
                async def fn(**_):
                    {raised}
            """) as script:
                self.assertEqual(script.call("fn", "Create")["retryAfterSeconds"], 60)


class Results(unittest.TestCase):
    def test_kinds(self) -> None:
        cases: list[tuple[str, Any]] = [
            ("None", None), ("{'a': 1}", {"a": 1}), ("[1]", [1]), ("'text'", "text"), ("0", 0), ("False", False), ("{}", {}),
            ("spec", {"size": 1}), ("(1, 2)", [1, 2]),
        ]
        for text, expected in cases:
            with self.subTest(text), Script(f"""
                @kopf.on.create('examples')
                def fn(spec, **_): return {text}
            """) as script:
                response = script.call("fn", "Create")
                self.assertEqual(response, {} if expected is None else {"status": {"fn": expected}})

    def test_a_mapping_joins_what_the_patch_has(self) -> None:
        with Script("""
            @kopf.on.create('examples')
            def fn(patch, **_):
                patch.status['fn'] = {'a': 1}
                return {'b': 2}
        """) as script:
            self.assertEqual(script.call("fn", "Create"), {"status": {"fn": {"a": 1, "b": 2}}})

    def test_what_has_no_json_form_leaves_the_patch(self) -> None:
        with Script("""
            @kopf.on.create('examples')
            def fn(patch, **_):
                patch.status['made'] = True
                @kopf.subhandler(id='bad')
                def bad(**_): return object()
                @kopf.subhandler(id='good')
                def good(**_): return 1
                @kopf.subhandler(id='later')
                def later(**_): raise kopf.TemporaryError('later', delay=5)
        """) as script:
            response = script.call("fn", "Create")
        self.assertEqual(response["status"], {"made": True, "fn/good": 1})
        self.assertEqual(response["progress"]["done"], ["fn/bad", "fn/good"])
        self.assertRegex(response["events"][0]["message"], "its result cannot be written: status.fn/bad: .* has no JSON form")

    def test_a_creation_whose_patch_cannot_be_written_is_over(self) -> None:
        with Script("""
            @kopf.on.create('examples')
            def fn(patch, **_): patch.status['at'] = object()
        """) as script:
            response = script.call("fn", "Create")
        self.assertNotIn("error", response)
        self.assertRegex(response["events"][0]["message"], "is not called again for the object: its patch cannot be written: status.at")

    def test_a_delay_that_is_no_number_is_an_error(self) -> None:
        with Script("""
            @kopf.on.create('examples')
            def fn(**_): raise kopf.TemporaryError('later', delay=float('nan'))
        """) as script:
            response = script.call("fn", "Create")
        self.assertRegex(response["error"]["message"], "retryAfterSeconds: nan is not a finite number")
        self.assertEqual(response["retryAfterSeconds"], 60)

    def test_labels_must_be_strings(self) -> None:
        with Script("""
            @kopf.on.update('examples')
            def fn(patch, **_): patch.meta.labels['a'] = 5
        """) as script:
            self.assertRegex(script.call("fn", "Update")["error"]["message"], r"patch\.metadata\.labels\.a: must be a string or None, is 5")

    def test_a_copy_of_the_process_ends_with_its_handler(self) -> None:
        with Script("""
            import os, sys
            @kopf.on.create('examples')
            def fn(**_):
                child = os.fork()
                if child == 0:
                    sys.exit(7)
                return os.waitpid(child, 0)[1] >> 8
        """) as script:
            self.assertEqual(script.call("fn", "Create")["status"], {"fn": 7})

    def test_what_has_no_json_form_is_named(self) -> None:
        cases = [
            ("{'at': [datetime.datetime(2026, 1, 2)]}", r"status\.fn\.at\[0\]: datetime\.datetime\(.*\) is datetime"),
            ("float('nan')", r"status\.fn: nan is not a finite number"),
            ("{'x': b'bytes'}", r"status\.fn\.x: b'bytes' is bytes"),
            ("{'x': {1, 2}}", r"status\.fn\.x: \{1, 2\} is set"),
            ("{(1, 2): 'x'}", r"status\.fn: the key \(1, 2\) must be a string, is tuple"),
            ("loop", r"status\.fn\.x: contains itself"),
        ]
        for text, message in cases:
            with self.subTest(text), Script(f"""
                import datetime
                loop = {{}}
                loop['x'] = loop
                @kopf.on.update('examples')
                def fn(**_): return {text}
            """) as script:
                response = script.call("fn", "Update")
                self.assertRegex(response["error"]["message"], message)
                self.assertTrue(response["error"]["permanent"])

    def test_the_record_is_not_copied_by_scripts_that_copy_annotations(self) -> None:
        with Script("""
            @kopf.on.create('examples')
            def fn(annotations, meta, body, patch, **_):
                patch.fns.append(lambda body: body['metadata']['annotations'].update(seen='yes'))
                copies = [annotations, meta['annotations'], body['metadata']['annotations'], body.metadata.annotations]
                return [dict(copy) for copy in copies]
        """) as script:
            kept = {"example.com/note": "x", "setpoint.dev/paused": "false"}
            record = {"setpoint.dev/handled-by-handlercontroller-operator-examples": "{}"}
            response = script.call("fn", "Create", example(metadata={"annotations": {**kept, **record}}))
            self.assertEqual(response["status"], {"fn": [kept] * 4})
            self.assertEqual(response["patch"], {"metadata": {"annotations": {"seen": "yes"}}})

    def test_a_patch_that_sets_nothing_is_none(self) -> None:
        with Script("""
            @kopf.on.create('examples')
            def fn(patch, **_):
                patch.setdefault('metadata', {}).setdefault('labels', {})
                patch.setdefault('status', {})
        """) as script:
            self.assertEqual(script.call("fn", "Create"), {})

    def test_what_cannot_be_patched_is_named(self) -> None:
        for change, field in (("patch.meta['finalizers'] = []", "patch.metadata.finalizers"), ("patch['kind'] = 'X'", "patch.kind")):
            with self.subTest(field), Script(f"""
                @kopf.on.update('examples')
                def fn(patch, **_): {change}
            """) as script:
                error = script.call("fn", "Update")["error"]
                message = error["message"]
                self.assertTrue(error["permanent"])
                self.assertTrue(message.startswith(f"its patch cannot be written: {field}"), message)

    def test_a_function_of_the_patch_that_fails_is_an_error(self) -> None:
        with Script("""
            @kopf.on.create('examples')
            def fn(patch, **_):
                patch.fns.append(lambda body: body['absent'])
        """) as script:
            self.assertRegex(script.call("fn", "Create")["error"]["message"], "patch.fns failed: KeyError")


class Takeover(unittest.TestCase):
    SCRIPT = """
        @kopf.on.create('examples')
        def created(**_): return 'created'
        @kopf.on.update('examples')
        def updated(old, new, **_): return [old['spec'], new['spec']]
        @kopf.on.resume('examples')
        def resumed(reason, **_): return str(reason)
        @kopf.on.create('examples')
        def failing(spec, **_):
            if spec.get('bad'): raise kopf.TemporaryError('later')
    """

    def test_an_unchanged_object_is_only_resumed(self) -> None:
        handled = kopf_object('{"spec": {"size": 1}}\n')
        with Script(self.SCRIPT) as script:
            self.assertEqual(script.handlers()["updated"]["reasons"], ["Update"])
            self.assertEqual(
                script.declaration()["controllers"][0]["spec"]["replacedAnnotation"], "kopf.zalando.org/last-handled-configuration"
            )
            self.assertEqual(script.call("created", "Create", handled), NO_EFFECT)
            self.assertEqual(script.call("updated", "Create", handled), NO_EFFECT)
            self.assertEqual(script.call("resumed", "Create", handled), {"status": {"resumed": "resume"}})

    def test_a_changed_object_is_updated(self) -> None:
        handled = kopf_object('{"spec": {"size": 0}}')
        with Script(self.SCRIPT) as script:
            self.assertEqual(script.call("created", "Create", handled), NO_EFFECT)
            self.assertEqual(script.call("updated", "Create", handled)["status"], {"updated": [{"size": 0}, {"size": 1}]})
            self.assertEqual(script.call("resumed", "Create", handled), {"status": {"resumed": "update"}})

    def test_a_handler_of_creations_and_updates_sees_the_change_itself(self) -> None:
        with Script("""
            @kopf.on.create('examples')
            @kopf.on.update('examples')
            def fn(reason, old, **_): return [str(reason), old]
        """) as script:
            response = script.call("fn", "Create", kopf_object('{"spec": {"size": 0}}'))
            self.assertEqual(response["status"], {"fn": ["update", {"spec": {"size": 0}}]})

    def test_a_change_of_annotations_of_kopf_is_none(self) -> None:
        with Script(self.SCRIPT) as script:
            self.assertEqual(script.call("updated", "Update", example(), previousState=kopf_object("{}")), NO_EFFECT)

    def test_an_object_of_which_the_annotation_is_broken_is_new(self) -> None:
        with Script(self.SCRIPT) as script:
            self.assertEqual(script.call("created", "Create", kopf_object("{"))["status"], {"created": "created"})
            odd = kopf_object('{"metadata": {"labels": 7, "annotations": "x"}, "spec": null}')
            self.assertEqual(script.call("created", "Create", odd), NO_EFFECT)

    def test_a_new_object_has_no_other_calls(self) -> None:
        with Script(self.SCRIPT) as script:
            self.assertEqual(script.call("updated", "Create"), NO_EFFECT)
            self.assertEqual(script.call("resumed", "Create"), NO_EFFECT)

    def test_the_annotations_go_with_the_last_handler(self) -> None:
        annotations = {
            "kopf.zalando.org/last-handled-configuration": "{}", "kopf.zalando.org/created": "{}", "other": "stays",
        }
        handled = example(metadata={"annotations": annotations}, status={"kopf": {"progress": {"a": {}}}})
        with Script(self.SCRIPT) as script:
            name, declared = list(script.handlers().items())[-1]
            expression = {"key": "kopf.zalando.org/last-handled-configuration", "operator": "Exists"}
            self.assertEqual(declared["annotationSelector"], {"matchExpressions": [expression]})
            response = script.call(name, "Create", handled)
            removed = {"kopf.zalando.org/last-handled-configuration": None, "kopf.zalando.org/created": None}
            self.assertEqual(response, {"patch": {"metadata": {"annotations": removed}}, "status": {"kopf": {"progress": None}}})

    def test_the_annotations_stay_while_a_handler_is_retried(self) -> None:
        with Script("""
            @kopf.on.update('examples')
            def fn(memo, **_):
                memo.calls = memo.get('calls', 0) + 1
                if memo.calls == 1: raise kopf.TemporaryError('later')
        """) as script:
            handled = kopf_object('{"spec": {"size": 0}}')
            self.assertIn("error", script.call("fn", "Create", handled))
            self.assertIn("retryAfterSeconds", script.call("kopf-takeover", "Create", handled))
            self.assertNotIn("error", script.call("fn", "Create", handled))
            self.assertIn("patch", script.call("kopf-takeover", "Create", handled))

    def test_other_storages(self) -> None:
        with Script("""
            @kopf.on.startup()
            def configure(settings, **_):
                settings.persistence.diffbase_storage = kopf.StatusDiffBaseStorage(field='status.mine.state')
                settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix='my.dev')
            @kopf.on.update('examples')
            def fn(old, **_): return old
        """) as script:
            handled = example(status={"mine": {"state": '{"spec": {"size": 0}}'}}, metadata={"annotations": {"my.dev/fn": "{}"}})
            self.assertEqual(script.call("fn", "Create", handled)["status"], {"fn": {"spec": {"size": 0}}})
            response = script.call("kopf-takeover", "Create", handled)
            (declared,) = script.declaration()["controllers"]
        self.assertEqual(declared["spec"]["ignoredAnnotationPrefixes"], ["my.dev/"])
        self.assertEqual(response["status"], {"mine": {"state": None}})
        self.assertEqual(response["patch"], {"metadata": {"annotations": {"my.dev/fn": None}}})


class Names(unittest.TestCase):
    def test_users_read_the_id(self) -> None:
        with Script("""
            @kopf.on.field('examples', field='metadata.labels')
            def relabel(**_): pass
            @kopf.on.create('examples')
            def fn(**_): pass
        """) as script:
            names = {name: h.get("displayName") for name, h in script.handlers().items() if name != "kopf-takeover"}
        self.assertEqual(list(names.values()), ["relabel/metadata.labels", None])


class DryRun(unittest.TestCase):
    def test_no_function_is_called(self) -> None:
        with Script("""
            @kopf.on.create('examples')
            def fn(**_): raise AssertionError
            @kopf.timer('examples', interval=5)
            def tick(**_): raise AssertionError
        """) as script:
            self.assertIn("would be called", script.call("fn", "Create", dryRun=True)["message"])
            self.assertIn("would be called", script.call("tick", "Timer", dryRun=True)["message"])
