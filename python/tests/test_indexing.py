"""Indices, by the calls of Setpoint."""

import asyncio
import unittest

from tests.harness import Script, example


class Indexing(unittest.TestCase):
    def script(self, source):
        script = Script(source)
        self.addCleanup(script.close)
        return script

    def feed(self, script, *objects, deleted=(), first=False, complete=True):
        controller = next(c for c in script.declaration()["controllers"] if "index" in c["spec"])
        url = controller["spec"]["index"]["webhook"]["url"]
        data = {
            "controller": controller, "apiVersion": "example.com/v1", "kind": "Example", "first": first,
            "objects": list(objects), "deleted": list(deleted), "complete": complete,
        }
        status, response = script.request("POST", url, data)
        self.assertEqual((200, {}), (status, response))

    def content(self, script, name="sizes"):
        return {key: sorted(store) for key, store in script.operator.indices[name].items()}

    SIZES = """
        @kopf.index('examples')
        def sizes(spec, name, **_):
            return {spec['size']: name}
        @kopf.on.create('examples')
        def create(sizes, **_):
            return {'same': sorted(sizes.get(1, []))}
    """

    def test_lists_and_changes(self):
        script = self.script(self.SIZES)
        a, b = (example(metadata={"name": n, "uid": n}) for n in "ab")
        self.feed(script, a, first=True, complete=False)
        self.feed(script, b)
        self.assertEqual({1: ["a", "b"]}, self.content(script))
        self.assertEqual({"create": {"same": ["a", "b"]}}, script.call("create", "Create")["status"])
        self.feed(script, {**a, "spec": {"size": 2}})
        self.assertEqual({1: ["b"], 2: ["a"]}, self.content(script))
        self.feed(script, deleted=[{"namespace": "shop", "name": "b", "uid": "b"}])
        self.assertEqual({2: ["a"]}, self.content(script))

    def test_a_second_list_drops_what_it_does_not_have(self):
        script = self.script(self.SIZES)
        a, b = (example(metadata={"name": n, "uid": n}) for n in "ab")
        self.feed(script, a, b, first=True)
        self.feed(script, b, first=True, complete=False)
        self.assertEqual({1: ["a", "b"]}, self.content(script))
        self.feed(script)
        self.assertEqual({1: ["b"]}, self.content(script))

    def test_filters(self):
        script = self.script("""
            @kopf.index('examples', when=lambda spec, **_: spec['size'] > 0)
            async def sizes(name, **_):
                return name
        """)
        self.feed(script, example())
        self.assertEqual({None: ["one"]}, self.content(script))
        self.feed(script, example(spec={"size": 0}))
        self.assertEqual({}, self.content(script))
        with self.assertLogs("kopf.objects", "ERROR"):
            self.feed(script, example(spec={}))

    def test_none_keeps_what_the_index_has(self):
        script = self.script("""
            @kopf.index('examples')
            def sizes(spec, name, **_):
                if spec['size'] == 1:
                    return {1: name}
                if spec['size'] == 2:
                    raise ValueError("bad")
        """)
        self.feed(script, example())
        self.feed(script, example(spec={"size": 3}))
        self.assertEqual({1: ["one"]}, self.content(script))
        with self.assertLogs("kopf.objects", "ERROR") as logs:
            self.feed(script, example(spec={"size": 2}))
        self.assertIn("sizes", logs.output[0])
        self.assertEqual({1: ["one"]}, self.content(script))

    ERRORS = """
        attempts = []
        @kopf.index('examples', backoff=0.001, errors=kopf.ErrorsMode.TEMPORARY, retries=4)
        def sizes(spec, name, retry, **_):
            attempts.append(retry)
            if spec['size'] < 3 and len(attempts) < 4:
                raise kopf.PermanentError("no") if spec['size'] == 2 else ValueError("later")
            return {1: name}
    """

    def test_a_temporary_error_is_retried(self):
        script = self.script(self.ERRORS)
        self.feed(script, example())
        self.assertEqual({}, self.content(script))

        async def wait():
            while not script.operator.indices["sizes"]:
                await asyncio.sleep(0.001)

        script._loop.run_until_complete(asyncio.wait_for(wait(), 60))
        self.assertEqual([0, 1, 2, 3], script.names["attempts"])
        self.assertEqual({1: ["one"]}, self.content(script))

    def test_a_permanent_error_excludes_the_object(self):
        script = self.script(self.ERRORS)
        self.feed(script, example(spec={"size": 3}))
        self.assertEqual({1: ["one"]}, self.content(script))
        self.feed(script, example(spec={"size": 2}))
        self.assertEqual({}, self.content(script))
        self.feed(script, example(spec={"size": 3}))
        self.assertEqual({}, self.content(script))
        self.assertEqual([0, 0], script.names["attempts"])

    def test_a_success_is_no_news(self):
        script = self.script(self.SIZES)
        with self.assertLogs("kopf.objects", "INFO") as logs:
            self.feed(script, example(), first=True)
            script.call("create", "Create")
        self.assertEqual(1, len(logs.output))

    def test_two_kinds_in_one_index(self):
        script = self.script("""
            @kopf.index('examples')
            @kopf.index('others')
            def both(name, **_):
                return {name: 1}
        """)
        controllers = script.declaration()["controllers"]
        self.assertEqual(2, len([c for c in controllers if "index" in c["spec"]]))
        self.assertEqual(["both"], list(script.operator.indices))

    def test_an_empty_index_is_an_argument(self):
        script = self.script("""
            seen = []
            @kopf.index('examples')
            def sizes(**_):
                return 1
            @kopf.on.startup()
            def start(sizes, memo, **_):
                seen.append(len(sizes))
        """)
        self.assertEqual([0], script.names["seen"])

    def test_a_malformed_request(self):
        script = self.script(self.SIZES)
        url = script.declaration()["controllers"][0]["spec"]["index"]["webhook"]["url"]
        self.assertEqual(400, script.request("POST", url, {"objects": [{}]})[0])
        self.assertEqual(404, script.request("POST", "/index/other", {})[0])


if __name__ == "__main__":
    unittest.main()
