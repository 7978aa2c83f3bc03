"""Differences of states, and the part of an object that counts."""

import unittest

from setpoint._engine.diffs import Diff, DiffOperation, diff, narrow
from setpoint.kopf._essence import essence


class Diffs(unittest.TestCase):
    def test_nested(self) -> None:
        old = {"spec": {"a": 1, "b": {"c": 2}, "gone": True}, "data": {"k": "v"}}
        new = {"spec": {"a": 2, "b": {"c": 2, "d": 3}}, "data": {"k": "v"}}
        self.assertEqual(
            diff(old, new),
            (("change", ("spec", "a"), 1, 2), ("add", ("spec", "b", "d"), None, 3), ("remove", ("spec", "gone"), True, None)),
        )

    def test_lists_count_as_a_whole(self) -> None:
        self.assertEqual(diff({"l": [1]}, {"l": [1, 2]}), (("change", ("l",), [1], [1, 2]),))

    def test_creation_is_one_addition(self) -> None:
        self.assertEqual(diff(None, {"spec": {}}), (("add", (), None, {"spec": {}}),))

    def test_items_have_names(self) -> None:
        item = diff({"a": 1}, {"a": 2})[0]
        self.assertEqual((item.op, item.operation, item.field, item.old, item.new), ("change", "change", ("a",), 1, 2))
        self.assertIs(item.op, DiffOperation.CHANGE)
        self.assertEqual(str(item.op), "change")

    def test_narrowed_to_a_field(self) -> None:
        whole = diff({"spec": {"a": {"b": 1}, "x": 1}}, {"spec": {"a": {"b": 2}, "x": 2}})
        self.assertEqual(narrow(whole, ("spec", "a")), (("change", ("b",), 1, 2),))
        self.assertEqual(narrow(whole, ("spec", "a", "b")), (("change", (), 1, 2),))
        self.assertEqual(narrow(diff(None, {"spec": {"a": 1}}), ("spec", "a")), (("add", (), None, 1),))
        self.assertEqual(narrow(diff({"spec": {"a": 1}}, {}), ("spec", "a")), (("remove", (), 1, None),))
        self.assertEqual(narrow(whole, ("status",)), ())

    def test_empty_is_false_and_hashable(self) -> None:
        self.assertFalse(Diff())
        self.assertEqual(hash(Diff()), hash(Diff([])))


class Essence(unittest.TestCase):
    BODY = {
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"}, "status": {"phase": "x", "other": 1},
        "metadata": {
            "name": "a", "uid": "u", "resourceVersion": "7", "labels": {"l": "1"},
            "annotations": {
                "mine": "1", "setpoint.dev/handled-by-x": "{}", "kopf.zalando.org/last-handled-configuration": "{}",
                "own.dev/progress": "{}", "kubectl.kubernetes.io/last-applied-configuration": "{}",
            },
        },
    }

    def test_top_level_fields_labels_and_annotations_count(self) -> None:
        expected = {"data": {"k": "v"}, "metadata": {"labels": {"l": "1"}, "annotations": {"mine": "1"}}}
        self.assertEqual(essence(self.BODY, prefixes=["own.dev"]), expected)

    def test_watched_fields_of_the_status_count(self) -> None:
        kept = essence(self.BODY, [("status", "phase"), ("status", "absent"), ("metadata", "labels")])
        self.assertEqual(kept["status"], {"phase": "x"})

    def test_nothing_is_left_of_empty_metadata(self) -> None:
        body = {"metadata": {"name": "a", "annotations": {"setpoint.dev/x": "1"}}, "spec": {}}
        self.assertEqual(essence(body), {"spec": {}})

    def test_the_object_is_not_changed(self) -> None:
        before = repr(self.BODY)
        essence(self.BODY, [("status", "phase")])["data"] = {}
        self.assertEqual(repr(self.BODY), before)
