"""Admission handlers, by the reviews of Setpoint."""

import unittest

from setpoint._engine.errors import DeclarationError
from tests.harness import Script, example

USER = {"username": "ann", "uid": "1", "groups": ["devs"], "extra": {}}


class Reviews(unittest.TestCase):
    def script(self, source):
        script = Script(source)
        self.addCleanup(script.close)
        return script

    def webhooks(self, script):
        controllers = [c for c in script.declaration()["controllers"] if c["kind"] == "AdmissionController"]
        return {w["name"]: w for c in controllers for w in c["spec"]["webhooks"]}

    def review(self, script, name, operation="CREATE", obj=None, old=None, **fields):
        obj = example() if obj is None and operation != "DELETE" else obj
        data = {
            "controller": {}, "webhook": name, "uid": "r", "operation": operation, "apiVersion": "example.com/v1",
            "kind": "Example", "resource": "examples", "subresource": "", "namespace": "shop", "name": "one",
            "object": obj, "oldObject": old, "user": USER, "dryRun": False, **fields,
        }
        status, response = script.request("POST", self.webhooks(script)[name]["webhook"]["url"], data)
        self.assertEqual(200, status, response)
        return response

    def test_declaration(self):
        script = self.script("""
            @kopf.on.validate('example.com', 'v1', 'examples', operations=['DELETE', 'CREATE'], labels={'a': 'b'})
            def check_it(**_): pass
            @kopf.on.mutate('pods', id='Fill/In', subresource='status', ignore_failures=True)
            def other(**_): pass
        """)
        webhooks = self.webhooks(script)
        check = webhooks["check-it"]
        self.assertEqual("Validate", check["type"])
        selector = {"group": "example.com", "version": "v1", "name": "examples"}
        self.assertEqual([{"selector": selector, "operations": ["CREATE", "DELETE"]}], check["rules"])
        self.assertEqual({"matchLabels": {"a": "b"}}, check["objectSelector"])
        self.assertEqual("Fail", check["failurePolicy"])
        name = next(name for name in webhooks if name.startswith("fill-in"))
        self.assertEqual(("Mutate", "Ignore"), (webhooks[name]["type"], webhooks[name]["failurePolicy"]))
        rule = {"selector": {"name": "pods"}, "operations": ["CREATE", "UPDATE"], "subresources": ["status"]}
        self.assertEqual([rule], webhooks[name]["rules"])

    def test_all_subresources(self):
        script = self.script("""
            @kopf.on.validate('pods', subresource='*')
            def check(**_): pass
        """)
        (webhook,) = script.declaration()["controllers"][0]["spec"]["webhooks"]
        self.assertEqual(["*"], webhook["rules"][0]["subresources"])

    def test_more_webhooks_than_a_controller_may_have(self):
        script = self.script("""
            for i in range(40):
                @kopf.on.validate('examples', id=f'check{i}')
                def check(**_): pass
        """)
        controllers = script.declaration()["controllers"]
        self.assertEqual([32, 8], [len(c["spec"]["webhooks"]) for c in controllers])
        self.assertEqual(["operator", "operator-2"], [c["metadata"]["name"] for c in controllers])
        self.assertTrue(self.review(script, "check39")["allowed"])

    def test_refused_declarations(self):
        for arguments, message in [
            ("operations=['CREATED']", "unknown operation 'CREATED'"),
            ("operations=['DELETE']", "use @kopf.on.validate"),
        ]:
            with self.subTest(arguments), self.assertRaisesRegex(DeclarationError, f"operator.py:.*{message}"):
                Script(f"""
                    @kopf.on.mutate('examples', {arguments})
                    def fn(**_): pass
                """)

    def test_arguments(self):
        script = self.script("""
            seen = {}
            @kopf.on.validate('examples')
            def check(**kwargs):
                seen.update(kwargs)
        """)
        self.review(script, "check", "UPDATE", example(spec={"size": 2}), example(), dryRun=True, subresource="scale")
        seen = script.names["seen"]
        self.assertEqual(("UPDATE", "scale", True), (seen["operation"], seen["subresource"], seen["dryrun"]))
        self.assertEqual((USER, {}, {}), (seen["userinfo"], seen["headers"], seen["sslpeer"]))
        self.assertEqual((1, 2), (seen["old"]["spec"]["size"], seen["new"]["spec"]["size"]))
        self.assertEqual((("change", ("spec", "size"), 1, 2),), tuple(map(tuple, seen["diff"])))
        self.assertEqual(2, seen["spec"]["size"])
        self.review(script, "check", "DELETE", old=example())
        self.assertEqual((None, 1), (seen["new"], seen["spec"]["size"]))

    def test_errors(self):
        script = self.script("""
            @kopf.on.validate('examples')
            async def check(spec, warnings, **_):
                warnings.append("careful")
                warnings.append(7)
                raise {0: kopf.AdmissionError("no", code=499), 1: kopf.AdmissionError("no"), 2: ValueError("bad"),
                       3: kopf.TemporaryError("later"), 4: kopf.AdmissionError("no", code=42),
                       5: kopf.AdmissionError()}[spec['size']]
        """)
        for size, message, code in [(0, "no", 499), (1, "no", 500), (2, "bad", 500), (3, "later", 500), (4, "no", 500)]:
            with self.subTest(size=size):
                self.assertEqual(
                    {"allowed": False, "message": message, "code": code, "warnings": ["careful", "7"]},
                    self.review(script, "check", obj=example(spec={"size": size})),
                )
        self.assertIn("AdmissionError", self.review(script, "check", obj=example(spec={"size": 5}))["message"])

    def test_mutations(self):
        script = self.script("""
            @kopf.on.mutate('examples')
            def fill(spec, patch, **_):
                patch.spec['size'] = spec['size'] + 1
                patch.meta.labels['seen'] = 'yes'
                patch.fns.append(lambda body: body['spec'].setdefault('list', []).append(1))
        """)
        patch = {"spec": {"size": 2, "list": [1]}, "metadata": {"labels": {"seen": "yes"}}}
        self.assertEqual({"allowed": True, "patch": patch}, self.review(script, "fill"))

    def test_a_patch_that_cannot_be_stored(self):
        script = self.script("""
            import datetime
            @kopf.on.mutate('examples')
            def fill(patch, **_):
                patch.spec['now'] = datetime.datetime.now()
        """)
        response = self.review(script, "fill")
        self.assertFalse(response["allowed"])
        self.assertIn("spec.now", response["message"])

    def test_a_patch_of_a_validating_handler(self):
        script = self.script("""
            @kopf.on.validate('examples')
            def check(patch, **_):
                patch.spec['size'] = 7
        """)
        with self.assertLogs("kopf.objects", "WARNING"):
            self.assertEqual({"allowed": True}, self.review(script, "check"))

    def test_filters(self):
        script = self.script("""
            @kopf.on.validate('examples', field='spec.size', value=7)
            def check(**_):
                raise kopf.AdmissionError("no")
        """)
        (name,) = self.webhooks(script)
        self.assertEqual({"allowed": True}, self.review(script, name))
        self.assertFalse(self.review(script, name, obj=example(spec={"size": 7}))["allowed"])

    def test_memos(self):
        script = self.script("""
            @kopf.on.create('examples')
            def create(memo, **_):
                memo.value = 7
            @kopf.on.validate('examples')
            def check(memo, warnings, **_):
                warnings.append(memo.get('value'))
                memo.value = 8
        """)
        self.assertEqual(["None"], self.review(script, "check")["warnings"])
        script.call("create", "Create")
        self.assertEqual(["7"], self.review(script, "check", "UPDATE")["warnings"])

    def test_events(self):
        script = self.script("""
            @kopf.on.validate('examples')
            def check(body, **_):
                kopf.info(body, reason="Checked", message="fine")
        """)
        event = {"type": "Normal", "reason": "Checked", "message": "fine"}
        self.assertEqual({"allowed": True, "events": [event]}, self.review(script, "check"))

    def test_servers_are_accepted(self):
        script = self.script("""
            @kopf.on.startup()
            def configure(settings, **_):
                settings.admission.managed = 'auto.example.com'
                settings.admission.server = kopf.WebhookServer(addr='0.0.0.0', port=8080, host='x', certfile='y')
                for kind in [kopf.WebhookK3dServer, kopf.WebhookMinikubeServer, kopf.WebhookDockerDesktopServer,
                             kopf.WebhookAutoServer, kopf.WebhookAutoTunnel, kopf.WebhookNgrokTunnel]:
                    assert kind(port=8080, path='/x').path == '/x'
            @kopf.on.validate('examples')
            def check(**_): pass
        """)
        self.assertEqual(8080, script.operator.settings.admission.server.port)
        with self.assertRaises(TypeError):
            Script("kopf.WebhookServer(pport=1)")

    def test_another_path(self):
        script = self.script("")
        self.assertEqual(404, script.request("POST", "/reviews/operator/x", {})[0])


if __name__ == "__main__":
    unittest.main()
