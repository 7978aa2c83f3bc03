"""Handlers of creations, updates, deletions and resumptions."""

import unittest

from tests.harness import Script, example


class Create(unittest.TestCase):
    def test_result_goes_to_the_status_by_id(self) -> None:
        with Script("""
            @kopf.on.create('examples')
            def create_fn(spec, name, namespace, retry, reason, old, new, diff, patch, **_):
                patch.spec['seen'] = [name, namespace, retry, str(reason), old, new]
                return {'size': spec['size'], 'diff': diff}
        """) as script:
            response = script.call("create-fn", "Create")
        self.assertEqual(response["status"], {"create_fn": {"size": 1, "diff": [["add", [], None, {"spec": {"size": 1}}]]}})
        self.assertEqual(response["patch"], {"spec": {"seen": ["one", "shop", 0, "create", None, {"spec": {"size": 1}}]}})

    def test_patch_is_written_also_if_the_handler_fails(self) -> None:
        with Script("""
            @kopf.on.create('examples')
            def create_fn(patch, **_):
                patch.status['tried'] = True
                raise kopf.TemporaryError("not yet", delay=7)
        """) as script:
            response = script.call("create-fn", "Create")
        expected = {"status": {"tried": True}, "error": {"message": "not yet"}, "retryAfterSeconds": 7}
        self.assertEqual(response, expected)


class Delete(unittest.TestCase):
    def test_giving_up_lets_the_object_go(self) -> None:
        with Script("""
            @kopf.on.delete('examples')
            def gone(**_):
                raise kopf.PermanentError("cannot")
        """) as script:
            response = script.call("gone", "Delete", example())
        self.assertNotIn("error", response)
        self.assertIn("cannot", response["events"][0]["message"])


if __name__ == "__main__":
    unittest.main()
