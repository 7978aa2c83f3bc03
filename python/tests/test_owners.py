"""adopt and its parts."""

import textwrap
import unittest

from setpoint import kopf
from tests import client_models
from tests.harness import Script, example

OWNER = {
    "apiVersion": "kopf.dev/v1",
    "kind": "KopfExample",
    "metadata": {"name": "one", "namespace": "ns", "uid": "uid1", "labels": {"app": "web"}},
}
REFERENCE = {
    "controller": True,
    "blockOwnerDeletion": True,
    "apiVersion": "kopf.dev/v1",
    "kind": "KopfExample",
    "name": "one",
    "uid": "uid1",
}


class DictionariesTest(unittest.TestCase):
    def test_adopt(self):
        job, deployment = {"kind": "Job"}, {"kind": "Deployment", "spec": {"template": {}}}
        kopf.adopt([job, [deployment, None]], OWNER, nested="spec.template")
        metadata = {
            "ownerReferences": [REFERENCE],
            "generateName": "one-",
            "namespace": "ns",
            "labels": {"app": "web"},
        }
        self.assertEqual({"kind": "Job", "metadata": metadata}, job)
        self.assertEqual(metadata, deployment["metadata"])
        self.assertEqual({"template": {"metadata": {"labels": {"app": "web"}}}}, deployment["spec"])
        kopf.adopt([job], OWNER)
        self.assertEqual([REFERENCE], job["metadata"]["ownerReferences"])

    def test_adopt_a_generator(self):
        objects = [{}, {}]
        kopf.adopt((one for one in objects), OWNER)
        self.assertEqual(["ns", "ns"], [one["metadata"]["namespace"] for one in objects])

    def test_an_empty_metadata(self):
        child = {"metadata": None}
        kopf.adopt(child, OWNER)
        self.assertEqual("one-", child["metadata"]["generateName"])

    def test_names(self):
        cases = [
            # metadata, arguments, names after
            ({}, {}, {"generateName": "one-"}),
            ({}, {"strict": True}, {"name": "one"}),
            ({"name": "x"}, {}, {"name": "x"}),
            ({"generateName": "x-"}, {"strict": True}, {"generateName": "x-"}),
            ({"name": "x"}, {"forced": True}, {"generateName": "one-"}),
            ({"generateName": "x-"}, {"forced": True, "strict": True}, {"name": "one"}),
        ]
        for metadata, arguments, names in cases:
            with self.subTest(metadata=metadata, arguments=arguments):
                child = {"metadata": dict(metadata)}
                kopf.harmonize_naming(child, "one", **arguments)
                self.assertEqual(names, child["metadata"])

    def test_namespaces(self):
        child = {"metadata": {"namespace": "other"}}
        kopf.adjust_namespace(child, "ns")
        self.assertEqual("other", child["metadata"]["namespace"])
        kopf.adjust_namespace(child, "ns", forced=True)
        self.assertEqual("ns", child["metadata"]["namespace"])

    def test_the_owner_has_no_namespace(self):
        child = {}
        kopf.adopt(child, {"kind": "Namespace", "metadata": {"name": "one", "uid": "uid1"}})
        self.assertIn("namespace", child["metadata"])
        self.assertIsNone(child["metadata"]["namespace"])

    def test_labels(self):
        child = {"metadata": {"labels": {"app": "x"}}}
        kopf.label(child, {"app": "web", "tier": "front"})
        self.assertEqual({"app": "x", "tier": "front"}, child["metadata"]["labels"])
        kopf.label(child, {"app": "web"}, forced=True)
        self.assertEqual({"app": "web", "tier": "front"}, child["metadata"]["labels"])
        with self.assertWarns(DeprecationWarning):
            kopf.label(child, {"app": "y"}, force=True)
        self.assertEqual("y", child["metadata"]["labels"]["app"])

    def test_nested_labels_need_an_existing_part(self):
        for child in [{"kind": "Job"}, {"kind": "Job", "spec": None}, {"kind": "Job", "spec": {}}]:
            before = dict(child)
            kopf.label(child, {"app": "web"}, nested=["spec.template", ("spec", "other")])
            self.assertEqual({**before, "metadata": {"labels": {"app": "web"}}}, child)

    def test_owner_references(self):
        child = {"metadata": {"ownerReferences": [{"uid": "other"}]}}
        kopf.append_owner_reference(child, OWNER, controller=False, block_owner_deletion=None)
        added = child["metadata"]["ownerReferences"][1]
        self.assertIs(False, added["controller"])
        self.assertNotIn("blockOwnerDeletion", added)
        kopf.remove_owner_reference(child, OWNER)
        self.assertEqual([{"uid": "other"}], child["metadata"]["ownerReferences"])

    def test_what_is_no_object(self):
        with self.assertRaisesRegex(TypeError, "not supported: <class 'int'>"):
            kopf.adopt([1], OWNER)

    def test_outside_of_a_handler(self):
        for call in [kopf.adopt, kopf.label, kopf.append_owner_reference, kopf.remove_owner_reference]:
            with self.subTest(call.__name__), self.assertRaisesRegex(LookupError, "no handler is running"):
                call({})


class ModelsTest(unittest.TestCase):
    def test_models_of_both_libraries(self):
        for library in ["kubernetes", "kubernetes_asyncio"]:
            with self.subTest(library):
                client = client_models.install(library)
                self.addCleanup(client_models.remove, library)
                pod = client.V1Pod()
                kopf.adopt(pod, OWNER)
                self.assertIsInstance(pod.metadata, client.V1ObjectMeta)
                self.assertEqual("one-", pod.metadata.generate_name)
                self.assertEqual("ns", pod.metadata.namespace)
                self.assertEqual({"app": "web"}, pod.metadata.labels)
                reference = pod.metadata.owner_references[0]
                self.assertIsInstance(reference, client.V1OwnerReference)
                self.assertEqual(
                    ("kopf.dev/v1", "KopfExample", "one", "uid1", True, True),
                    (reference.api_version, reference.kind, reference.name, reference.uid)
                    + (reference.controller, reference.block_owner_deletion),
                )
                kopf.adopt(pod, OWNER)
                self.assertEqual(1, len(pod.metadata.owner_references))
                kopf.harmonize_naming(pod, "one", forced=True, strict=True)
                self.assertEqual(("one", None), (pod.metadata.name, pod.metadata.generate_name))
                kopf.remove_owner_reference(pod, OWNER)
                self.assertEqual([], pod.metadata.owner_references)

    def test_nested_parts_of_models(self):
        client = client_models.install("kubernetes")
        self.addCleanup(client_models.remove, "kubernetes")
        job = client.V1Job(spec=client.V1JobSpec(template=client.V1PodTemplateSpec()))
        empty = client.V1Job()
        kopf.label([job, empty], {"app": "web"}, nested="spec.template")
        self.assertEqual({"app": "web"}, job.spec.template.metadata.labels)
        self.assertIsNone(empty.spec)

    def test_a_subclass_of_a_model(self):
        client = client_models.install("kubernetes")
        self.addCleanup(client_models.remove, "kubernetes")
        mine = type("MyPod", (client.V1Pod,), {})()
        kopf.adopt(mine, OWNER)
        self.assertEqual("ns", mine.metadata.namespace)

    def test_pykube(self):
        pod = client_models.Pod(None, {"spec": {}})
        kopf.adopt([pod], OWNER, strict=True)
        self.assertEqual("one", pod.obj["metadata"]["name"])
        self.assertEqual([REFERENCE], pod.obj["metadata"]["ownerReferences"])


class HandlersTest(unittest.TestCase):
    """The handled object is the owner by default, wherever a handler calls the functions."""

    def child_of(self, source):
        with Script("import asyncio\nchild = {}\n" + textwrap.dedent(source)) as script:
            script.call("fn", "Create", example(metadata={"labels": {"app": "web"}}))
            return script.names["child"]

    def test_where_handlers_run(self):
        for source in [
            """
            @kopf.on.create('examples')
            def fn(**_):
                kopf.adopt(child)
            """,
            """
            @kopf.on.create('examples')
            async def fn(**_):
                kopf.adopt(child)
            """,
            """
            async def adopt():
                await asyncio.to_thread(kopf.adopt, child)
            @kopf.on.create('examples')
            def fn(**_):
                asyncio.run(adopt())
            """,
            """
            @kopf.on.create('examples')
            async def fn(**_):
                await asyncio.gather(asyncio.create_task(inner()))
            async def inner():
                kopf.append_owner_reference(child)
                kopf.harmonize_naming(child)
                kopf.adjust_namespace(child)
                kopf.label(child)
            """,
        ]:
            with self.subTest(source):
                metadata = self.child_of(source)["metadata"]
                self.assertEqual("one-", metadata["generateName"])
                self.assertEqual("shop", metadata["namespace"])
                self.assertEqual({"app": "web"}, metadata["labels"])
                self.assertEqual("uid-1", metadata["ownerReferences"][0]["uid"])


if __name__ == "__main__":
    unittest.main()
