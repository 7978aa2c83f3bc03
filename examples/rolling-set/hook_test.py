"""Tests of hook.py: python3 -m unittest -v hook_test, in this folder."""

import unittest

from hook import sync


def ask(replicas, *pods):
    """What sync answers for a set and its pods: (number, ready) each."""
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


def names(answer):
    return [pod["metadata"]["name"] for pod in answer["children"]]


class Sync(unittest.TestCase):
    def test_first_pod_comes_first(self):
        self.assertEqual(names(ask(3)), ["web-0"])

    def test_next_pod_waits_for_the_one_before(self):
        self.assertEqual(names(ask(3, (0, False))), ["web-0"])
        self.assertEqual(names(ask(3, (0, True))), ["web-1", "web-0"])

    def test_a_pod_that_exists_stays_whatever_those_before_do(self):
        self.assertEqual(names(ask(3, (1, True), (2, True))), ["web-2", "web-1", "web-0"])
        self.assertEqual(names(ask(3, (0, False), (2, True))), ["web-2", "web-0"])

    def test_surplus_pods_go_from_the_last(self):
        self.assertEqual(names(ask(1, (0, True), (1, True), (2, True))), ["web-1", "web-0"])
        self.assertEqual(names(ask(1, (0, True), (1, True))), ["web-0"])
        self.assertEqual(names(ask(0, (0, True))), [])

    def test_a_pod_on_its_way_out_is_not_ready(self):
        leaving = observed(0, True)
        leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        answer = sync({
            "parent": {"metadata": {"name": "web"}, "spec": {"replicas": 2, "template": {"spec": {}}}},
            "children": {"Pod.v1": {"default/web-0": leaving}},
        })
        self.assertEqual(names(answer), ["web-0"])
        self.assertEqual(answer["status"], {"replicas": 1, "readyReplicas": 0})

    def test_a_pod_is_made_of_the_template(self):
        parent = {
            "metadata": {"name": "web"},
            "spec": {"replicas": 1, "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": ["c"]}}},
        }
        pod = sync({"parent": parent, "children": {"Pod.v1": {}}})["children"][0]
        self.assertEqual(pod["metadata"]["labels"], {"app": "web", "apps.kubernetes.io/pod-index": "0"})
        self.assertEqual(pod["spec"], {"containers": ["c"], "hostname": "web-0"})


if __name__ == "__main__":
    unittest.main()
