"""Patches of handlers."""

import unittest
from typing import Any

from setpoint.kopf import Body, Patch


class Patches(unittest.TestCase):
    def test_ways_of_setting(self) -> None:
        patch = Patch()
        patch.spec["a"] = 1
        patch.status["b"] = 2
        patch["status"]["c"] = 3
        patch.meta.labels["l"] = "1"
        patch.metadata.annotations["x"] = None
        patch.setdefault("data", {})["k"] = "v"
        expected = {
            "spec": {"a": 1}, "status": {"b": 2, "c": 3},
            "metadata": {"labels": {"l": "1"}, "annotations": {"x": None}}, "data": {"k": "v"},
        }
        self.assertEqual(patch, expected)
        self.assertEqual(patch.merged(), expected)

    def test_views_read_what_is_set(self) -> None:
        patch = Patch()
        self.assertFalse(patch)
        self.assertIsNone(patch.status.get("x"))
        self.assertEqual(dict(patch.status), {})
        self.assertFalse(patch)
        patch.status.setdefault("list", []).append(1)
        self.assertEqual(patch.status["list"], [1])
        patch.status.update(a=1)
        del patch.status["a"]
        self.assertEqual(patch, {"status": {"list": [1]}})

    def test_functions_change_the_object(self) -> None:
        body = Body({"metadata": {"labels": {"a": "1"}}, "spec": {"items": [1], "gone": 1}})
        patch = Patch(body=body)
        patch.status["done"] = True

        def change(raw: Any) -> None:
            raw["spec"]["items"].append(2)
            del raw["spec"]["gone"]
            raw["status"]["more"] = 1

        patch.fns.append(change)
        expected = {"spec": {"items": [1, 2], "gone": None}, "status": {"done": True, "more": 1}}
        self.assertEqual(patch.merged(), expected)
        self.assertEqual(body["spec"], {"items": [1], "gone": 1})

    def test_what_is_set_again_stays_in_the_patch(self) -> None:
        patch = Patch({"spec": {"a": 1, "b": None}}, body={"spec": {"a": 1}}, fns=[lambda raw: None])
        self.assertEqual(patch.merged(), {"spec": {"a": 1, "b": None}})

    def test_clear(self) -> None:
        patch = Patch({"spec": {}}, fns=[lambda raw: None])
        patch.clear()
        self.assertFalse(patch)


class Bodies(unittest.TestCase):
    def test_absent_parts_are_empty(self) -> None:
        body = Body({"metadata": {"name": "a"}})
        self.assertEqual((dict(body.spec), dict(body.status), dict(body.meta.labels)), ({}, {}, {}))
        self.assertEqual((body.meta.name, body.meta.namespace, body.metadata.uid), ("a", None, None))
        self.assertIsNone(body.spec.get("x"))
        with self.assertRaises(KeyError):
            body.spec["x"]
        with self.assertRaises(KeyError):
            body["spec"]

    def test_parts_that_are_null_or_no_mappings_are_empty(self) -> None:
        body = Body({"metadata": {"labels": None}, "spec": None, "status": "odd"})
        self.assertEqual((dict(body.spec), dict(body.status), dict(body.meta.labels)), ({}, {}, {}))

    def test_views_follow_the_object(self) -> None:
        body = Body({"spec": {"a": 1}})
        spec = body.spec
        body.replace({"spec": {"a": 2}, "metadata": {"labels": {"x": "y"}}})
        self.assertEqual((spec["a"], body.meta.labels["x"]), (2, "y"))

    def test_views_are_read_only(self) -> None:
        with self.assertRaises(TypeError):
            Body({"spec": {}}).spec["x"] = 1  # type: ignore[index]
