"""Tests of hook.py: python3 -m unittest -v hook_test, in this folder."""

import unittest

from hook import images, labels


def pod(*names, **fields):
    spec = {"containers": [{"name": "c%d" % i, "image": name} for i, name in enumerate(names)]}
    return {"metadata": {"name": "web"}, "spec": {**spec, **fields}}


def review(new, old=None):
    return {"object": new, "oldObject": old}


class Labels(unittest.TestCase):
    def test_a_label_is_added(self):
        self.assertEqual(labels(review(pod("nginx:1")))["patch"], {"metadata": {"labels": {"team": "unassigned"}}})

    def test_an_existing_label_stays(self):
        web = pod("nginx:1")
        web["metadata"]["labels"] = {"team": "web"}
        self.assertEqual(labels(review(web)), {"allowed": True})


class Images(unittest.TestCase):
    def test_versions_and_digests_are_allowed(self):
        for image in (
            "nginx:1.28",
            "registry.example.com/team/nginx:v1",
            "registry:5000/nginx:1.28",
            "nginx@sha256:9f86d081884c7d65",
            "nginx:latest@sha256:9f86d081884c7d65",
        ):
            self.assertEqual(images(review(pod(image))), {"allowed": True}, image)

    def test_others_are_denied(self):
        for image, message in (
            ("nginx", "nginx has no tag"),
            ("nginx:", "nginx: has no tag"),
            ("registry:5000/nginx", "registry:5000/nginx has no tag"),
            ("nginx:latest", "nginx:latest has the tag latest"),
        ):
            response = images(review(pod("good:1", image)))
            self.assertFalse(response["allowed"], image)
            self.assertIn("spec.containers[1].image: " + message, response["message"])

    def test_the_message_has_all_faults(self):
        message = images(review(pod("a", initContainers=[{"image": "b"}], ephemeralContainers=[{"image": "c"}])))["message"]
        for path in ("spec.initContainers[0].image: b ", "spec.containers[0].image: a ", "spec.ephemeralContainers[0].image: c "):
            self.assertIn(path, message)

    def test_stored_images_stay_allowed(self):
        self.assertTrue(images(review(pod("nginx"), pod("nginx")))["allowed"])
        self.assertFalse(images(review(pod("apache"), pod("nginx")))["allowed"])


if __name__ == "__main__":
    unittest.main()
