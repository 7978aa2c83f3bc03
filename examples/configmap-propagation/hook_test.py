"""Tests of hook.py: python3 -m unittest -v hook_test, in this folder."""

import unittest

from hook import customize, sync

PARENT = {
    "metadata": {"name": "settings"},
    "spec": {
        "source": {"namespace": "default", "name": "settings"},
        "namespaceSelector": {"matchLabels": {"settings": "shared"}},
    },
}


def call(source, *namespaces):
    """Call sync with the source, or None, and these namespaces."""
    return sync({
        "parent": PARENT,
        "children": {"ConfigMap.v1": {}},
        "related": {
            "ConfigMap.v1": {"default/settings": source} if source else {},
            "Namespace.v1": {namespace["metadata"]["name"]: namespace for namespace in namespaces},
        },
    })


def source(**content):
    return {"metadata": {"name": "settings", "namespace": "default", "uid": "1"}, **content}


def namespace(name, **metadata):
    return {"metadata": {"name": name, **metadata}}


class Hooks(unittest.TestCase):
    def test_customize_selects_the_source_and_the_namespaces(self):
        configmaps, namespaces = customize({"parent": PARENT})["relatedResources"]
        self.assertEqual((configmaps["namespace"], configmaps["names"]), ("default", ["settings"]))
        self.assertEqual(namespaces["labelSelector"], {"matchLabels": {"settings": "shared"}})

    def test_each_namespace_gets_a_copy_of_the_content_only(self):
        response = call(source(data={"colour": "blue"}, binaryData={"logo": "AA=="}), namespace("red"), namespace("green"))
        self.assertEqual([child["metadata"]["namespace"] for child in response["children"]], ["red", "green"])
        self.assertEqual(response["children"][0], {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "settings", "namespace": "red"},
            "data": {"colour": "blue"},
            "binaryData": {"logo": "AA=="},
        })

    def test_the_source_is_not_its_own_copy(self):
        self.assertEqual(call(source(), namespace("default"))["children"], [])

    def test_a_terminating_namespace_gets_none(self):
        terminating = namespace("red", deletionTimestamp="2026-01-01T00:00:00Z")
        self.assertEqual(call(source(), terminating)["children"], [])

    def test_without_a_source_there_are_no_copies(self):
        response = call(None, namespace("red"))
        self.assertEqual((response["status"]["sourceFound"], response["children"]), (False, []))


if __name__ == "__main__":
    unittest.main()
