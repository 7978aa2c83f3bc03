"""Selectors of kinds, as Setpoint reads them."""

import unittest
from typing import Any

from setpoint import kopf
from setpoint._engine.selectors import parse_selector


def declared(*arguments: Any, **names: Any) -> dict[str, Any]:
    return parse_selector(arguments, **names).declaration()


class Selectors(unittest.TestCase):
    def test_forms(self) -> None:
        cases: list[tuple[tuple[Any, ...], dict[str, Any], dict[str, Any]]] = [
            (("kopfexamples",), {}, {"name": "kopfexamples"}),
            (("kopfexamples.kopf.dev",), {}, {"name": "kopfexamples", "group": "kopf.dev"}),
            (("pods.v1",), {}, {"name": "pods", "version": "v1", "group": ""}),
            (("x.v1beta1.kopf.dev",), {}, {"name": "x", "version": "v1beta1", "group": "kopf.dev"}),
            (("x.vendor.dev",), {}, {"name": "x", "group": "vendor.dev"}),
            (("kopf.dev/v1", "x"), {}, {"name": "x", "version": "v1", "group": "kopf.dev"}),
            (("v1", "pods"), {}, {"name": "pods", "version": "v1", "group": ""}),
            (("apps", "deployments"), {}, {"name": "deployments", "group": "apps"}),
            (("kopf.dev", "v1", "x"), {}, {"name": "x", "version": "v1", "group": "kopf.dev"}),
            (("", "v1", "pods"), {}, {"name": "pods", "version": "v1", "group": ""}),
            ((kopf.EVERYTHING,), {}, {"any": True}),
            (("kopf.dev", kopf.EVERYTHING), {}, {"any": True, "group": "kopf.dev"}),
            ((), {"kind": "KopfExample", "group": "kopf.dev"}, {"kind": "KopfExample", "group": "kopf.dev"}),
            ((), {"shortcut": "kex"}, {"shortName": "kex"}),
            ((), {"category": "all"}, {"category": "all"}),
        ]
        for arguments, names, expected in cases:
            with self.subTest(arguments=arguments, names=names):
                self.assertEqual(declared(*arguments, **names), expected)

    def test_refusals(self) -> None:
        cases: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
            ((), {}, "no kind is given"),
            (("a", "b", "c", "d"), {}, "at most three parts"),
            (("x",), {"plural": "y"}, "given 2 times"),
            ((lambda resource: True,), {}, "function as a selector"),
            ((7,), {}, "must be a string"),
            ((7, "x"), {}, "must be strings"),
            (("kopf.dev/v1", "x"), {"version": "v2"}, "given twice"),
            (("",), {}, "must be a string"),
        ]
        for arguments, names, message in cases:
            with self.subTest(arguments=arguments, names=names), self.assertRaisesRegex(TypeError, message):
                declared(*arguments, **names)

    def test_overlaps(self) -> None:
        def selector(*arguments: Any, **names: Any) -> Any:
            return parse_selector(arguments, **names)

        examples = selector("kopf.dev", "v1", "examples")
        for other in (selector("examples"), selector("kopf.dev", "Example"), selector(kind="Example"), selector(kopf.EVERYTHING)):
            self.assertTrue(examples.may_overlap(other), other)
        for other in (selector("others"), selector("other.dev", "examples"), selector("kopf.dev", "v2", "examples")):
            self.assertFalse(examples.may_overlap(other), other)
        self.assertTrue(selector("policies").may_overlap(selector(kind="Policy")))
        self.assertTrue(selector(plural="ingressclasses").may_overlap(selector(kind="IngressClass")))
