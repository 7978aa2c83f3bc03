"""Tests of hook.py: python3 -m unittest -v hook_test, in this folder."""

import unittest

from hook import sync


def call(replicas, *pods):
    """Call sync with a set and its pods, each a number and whether it is ready."""
    return sync({
        "parent": {
            "metadata": {"name": "web"},
            "spec": {"replicas": replicas, "template": {"spec": {"containers": []}}},
        },
        "children": {"Pod.v1": {"default/web-%d" % number: observed(number, ready) for number, ready in pods}},
    })


def observed(number, ready):
    return {
        "metadata": {"name": "web-%d" % number},
        "status": {"conditions": [{"type": "Ready", "status": str(ready)}]},
    }


def names(response):
    return [pod["metadata"]["name"] for pod in response["children"]]


class Sync(unittest.TestCase):
    def test_the_first_pod_starts_first(self):
        self.assertEqual(names(call(3)), ["web-0"])

    def test_the_next_pod_waits_for_the_previous(self):
        self.assertEqual(names(call(3, (0, False))), ["web-0"])
        self.assertEqual(names(call(3, (0, True))), ["web-1", "web-0"])

    def test_an_existing_pod_stays_when_previous_ones_fail(self):
        self.assertEqual(names(call(3, (1, True), (2, True))), ["web-2", "web-1", "web-0"])
        self.assertEqual(names(call(3, (0, False), (2, True))), ["web-2", "web-0"])

    def test_surplus_pods_are_deleted_from_the_last(self):
        self.assertEqual(names(call(1, (0, True), (1, True), (2, True))), ["web-1", "web-0"])
        self.assertEqual(names(call(1, (0, True), (1, True))), ["web-0"])
        self.assertEqual(names(call(0, (0, True))), [])

    def test_a_terminating_pod_is_not_ready(self):
        terminating = observed(0, True)
        terminating["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        response = sync({
            "parent": {"metadata": {"name": "web"}, "spec": {"replicas": 2, "template": {"spec": {}}}},
            "children": {"Pod.v1": {"default/web-0": terminating}},
        })
        self.assertEqual(names(response), ["web-0"])
        self.assertEqual(response["status"], {"replicas": 1, "readyReplicas": 0})

    def test_a_pod_has_the_template(self):
        parent = {
            "metadata": {"name": "web"},
            "spec": {"replicas": 1, "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": ["c"]}}},
        }
        pod = sync({"parent": parent, "children": {"Pod.v1": {}}})["children"][0]
        self.assertEqual(pod["metadata"]["labels"], {"app": "web", "apps.kubernetes.io/pod-index": "0"})
        self.assertEqual(pod["spec"], {"containers": ["c"], "hostname": "web-0"})


if __name__ == "__main__":
    unittest.main()
