"""The package's own style: one argument, objects as results."""

import textwrap
import unittest

from setpoint._engine.errors import DeclarationError
from tests.harness import Script, example

IMPORTS = "from setpoint import Call, DaemonCall, Deny, Permanent, Retry, Review, daemon, every, index, mutate, on, validate\n"


class Style(unittest.TestCase):
    def script(self, source):
        script = Script(IMPORTS + textwrap.dedent(source))
        self.addCleanup(script.close)
        return script

    def test_objects_are_applied(self):
        script = self.script("""
            @on.change("examples.example.com", "spec.size", owns=["v1/configmaps", "apps/v1/deployments"])
            @on.drift("examples.example.com", owns=["v1/configmaps"])
            def publish(call: Call):
                call.status["size"] = call.spec["size"]
                call.patch["metadata"] = {"labels": {"seen": "yes"}}
                call.event("Published", "m")
                call.condition("Ready", True, "Published")
                call.message = "fine"
                call.requeue(60)
                call.apply({"kind": "Secret"}, owned=False)
                call.delete("v1", "Pod", selector="app=web", evict=True)
                call.delete("v1", "ConfigMap", "old")
                return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": call.name}}
        """)
        (controller,) = script.declaration()["controllers"]
        owned = [{"apiVersion": "v1", "resource": "configmaps"}, {"apiVersion": "apps/v1", "resource": "deployments"}]
        self.assertEqual(owned, controller["spec"]["owns"])
        handler = script.handlers()["publish"]
        self.assertEqual(["Create", "Drift", "Update"], sorted(handler["reasons"]))
        self.assertEqual(["spec.size"], handler["fields"])
        self.assertEqual(
            {
                "patch": {"metadata": {"labels": {"seen": "yes"}}},
                "status": {"size": 1},
                "apply": [
                    {"object": {"kind": "Secret"}, "unowned": True},
                    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}},
                ],
                "delete": [
                    {"apiVersion": "v1", "kind": "Pod", "selector": "app=web", "evict": True},
                    {"apiVersion": "v1", "kind": "ConfigMap", "name": "old"},
                ],
                "events": [{"type": "Normal", "reason": "Published", "message": "m"}],
                "conditions": [{"type": "Ready", "status": "True", "reason": "Published", "message": ""}],
                "message": "fine",
                "retryAfterSeconds": 60,
            },
            script.call("publish", "Create"),
        )

    def test_the_call(self):
        script = self.script("""
            seen = []
            @on.update("examples", when=lambda obj: obj["spec"]["size"] > 0)
            async def look(call):
                seen.append(call)
                call.memory.count = 1
        """)
        changes = [{"path": "spec.size", "from": 0, "to": 1}]
        config = {"kind": "ConfigMap", "metadata": {"name": "c"}}
        owned = {"ConfigMap.v1": {"shop/c": config}}
        response = script.call("look", "Update", previousState=example(), changes=changes, owned=owned, attempt=2)
        self.assertEqual({}, response)
        call = script.names["seen"][0]
        self.assertEqual(("Update", 2, False), (call.reason, call.attempt, call.deleted))
        self.assertEqual(("one", "shop", "uid-1", 1), (call.name, call.namespace, call.uid, call.spec["size"]))
        self.assertEqual((changes, [config], []), (call.changes, call.owned("v1", "ConfigMap"), call.owned("v1", "Pod")))
        self.assertEqual(1, call.memory.count)
        self.assertEqual({"applicable": False}, script.call("look", "Update", example(spec={"size": 0})))

    def test_errors_write_nothing(self):
        script = self.script("""
            @on.create("examples", retries=3, backoff=5, timeout=90)
            def fail(call):
                call.status["tried"] = True
                call.warn("Tried")
                raise {1: Retry("later", after=7), 2: Retry("soon"), 3: Permanent("no"), 4: ValueError("bad")}.get(
                    call.spec["size"]) or RuntimeError()
        """)
        handler = script.handlers()["fail"]
        self.assertEqual((3, {"initial": "5s"}, "90s"), (handler["retries"], handler["backoff"], handler["retryTimeout"]))
        events = {"events": [{"type": "Warning", "reason": "Tried", "message": ""}]}
        for size, expected in [
            (1, {"error": {"message": "later"}, "retryAfterSeconds": 7}),
            (2, {"error": {"message": "soon"}}),
            (3, {"error": {"message": "no", "permanent": True}}),
            (4, {"error": {"message": "ValueError: bad"}}),
        ]:
            self.assertEqual({**events, **expected}, script.call("fail", "Create", example(spec={"size": size})))

    def test_results_that_cannot_be_written(self):
        script = self.script("""
            import datetime
            @on.create("examples")
            def fail(call):
                if call.spec["size"] == 1:
                    return "text"
                call.status["now"] = datetime.datetime.now()
        """)
        for size, message in ((1, "returns None, an object or a list"), (2, "status.now")):
            error = script.call("fail", "Create", example(spec={"size": size}))["error"]
            self.assertIn(message, error["message"])
            self.assertTrue(error["permanent"])

    def test_decorators_with_different_filters(self):
        script = self.script("""
            @on.create("examples", when=lambda obj: obj["spec"]["size"] > 5)
            @on.update("examples")
            def look(call):
                call.message = call.reason
        """)
        self.assertEqual({"sideEffects": False}, script.call("look", "Create"))
        self.assertEqual({"message": "Create"}, script.call("look", "Create", example(spec={"size": 6})))
        self.assertEqual({"message": "Update"}, script.call("look", "Update"))

    def test_deletions_and_timers(self):
        script = self.script("""
            @on.delete("examples", labels={"app": "web"})
            def gone(call): pass
            @on.delete("examples", optional=True)
            def perhaps(call): pass
            @every("1h30m", "examples", idle=30)
            def refresh(call):
                call.message = call.reason
        """)
        handlers = script.handlers()
        self.assertEqual({"matchLabels": {"app": "web"}}, handlers["gone"]["labelSelector"])
        self.assertTrue(handlers["perhaps"]["optional"])
        self.assertEqual(("5400s", "30s"), (handlers["refresh"]["every"], handlers["refresh"]["idle"]))
        self.assertEqual({"message": "Timer"}, script.call("refresh", "Timer"))

    def test_daemons(self):
        script = self.script("""
            @daemon("examples", stop_timeout="10s")
            def watch(call: DaemonCall):
                call.stopped.wait()
                call.status["last"] = call.spec["size"]
        """)
        script.call("watch", "Daemon", daemon="Start")
        script.call("watch", "Daemon", example(spec={"size": 2}), daemon="Update")
        response = script.call("watch", "Daemon", example(spec={"size": 2}), daemon="Stop")
        self.assertEqual({"status": {"last": 2}, "finished": True}, response)

    def test_indices(self):
        script = self.script("""
            @index("pods")
            def pods_of(pod):
                return {pod["spec"]["node"]: pod["metadata"]["name"]}
            @on.create("nodes")
            def count(call):
                call.message = str(len(pods_of.get(call.name, ())))
        """)
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "uid": "p"}, "spec": {"node": "one"}}
        controller = next(c for c in script.declaration()["controllers"] if "index" in c["spec"])
        url = controller["spec"]["index"]["webhook"]["url"]
        data = {"apiVersion": "v1", "kind": "Pod", "first": True, "objects": [pod], "complete": True}
        self.assertEqual(200, script.request("POST", url, data)[0])
        self.assertEqual(["p"], list(script.names["pods_of"]["one"]))
        self.assertEqual({"message": "1"}, script.call("count", "Create"))

    def review(self, script, name, obj=None):
        webhooks = [w for c in script.declaration()["controllers"] for w in c["spec"].get("webhooks", [])]
        url = next(w["webhook"]["url"] for w in webhooks if w["name"] == name)
        data = {"operation": "UPDATE", "object": obj or example(), "oldObject": example(), "user": {"username": "ann"}}
        status, response = script.request("POST", url, data)
        self.assertEqual(200, status)
        return response

    def test_reviews(self):
        script = self.script("""
            @validate("examples", operations=["CREATE", "UPDATE", "DELETE"])
            def check(review: Review):
                review.warn("careful")
                if review.new["spec"]["size"] > review.old["spec"]["size"]:
                    raise Deny(f"{review.user['username']} must not grow it on {review.operation}")
            @mutate("examples")
            async def fill(review):
                review.new["spec"]["list"] = [1]
                del review.new["spec"]["size"]
        """)
        self.assertEqual({"allowed": True, "warnings": ["careful"]}, self.review(script, "check"))
        self.assertEqual(
            {"allowed": False, "message": "ann must not grow it on UPDATE", "code": 403, "warnings": ["careful"]},
            self.review(script, "check", example(spec={"size": 2})),
        )
        self.assertEqual({"allowed": True, "patch": {"spec": {"list": [1], "size": None}}}, self.review(script, "fill"))

    def test_refused_declarations(self):
        for source, error, message in [
            ("every(0, 'examples')", ValueError, "interval must be seconds"),
            ("every('5 minutes', 'examples')", ValueError, "'5 minutes'"),
            ("on.create('examples', owns='v1/configmaps')", TypeError, "must be a list"),
            ("on.create('examples')(7)", TypeError, "must be a function"),
            ("on.create('examples', owns=['configmaps'])(print_it)", DeclarationError, "apiVersion/plural"),
        ]:
            with self.subTest(source), self.assertRaisesRegex(error, message):
                script = self.script(f"def print_it(call): pass\n{source}")
                script.declaration()


if __name__ == "__main__":
    unittest.main()
