"""Objects of requests by their names."""

import unittest

from setpoint import child

GROUPS = {
    "ConfigMap.v1": {"home/web": {"at": "home"}, "home/both": {"at": "home"}, "away/both": {"at": "away"}},
    "Namespace.v1": {"home": {"at": "cluster"}},
    "Pod.v1": {},
}


class Child(unittest.TestCase):
    def test_a_name_finds_an_object_whatever_its_key(self) -> None:
        for kind, name, at in (
            ("ConfigMap.v1", "web", "home"),
            ("ConfigMap.v1", "home/web", "home"),
            ("ConfigMap.v1", "away/both", "away"),
            ("Namespace.v1", "home", "cluster"),
        ):
            found = child(GROUPS, kind, name)
            assert found is not None
            self.assertEqual(found["at"], at)

    def test_what_is_not_there_is_none(self) -> None:
        for kind, name in (("ConfigMap.v1", "eb"), ("ConfigMap.v1", "away/web"), ("Namespace.v1", "keys"), ("Pod.v1", "web")):
            self.assertIsNone(child(GROUPS, kind, name))

    def test_what_is_not_clear_is_an_error(self) -> None:
        with self.assertRaisesRegex(LookupError, "several ConfigMap.v1 both: name one of home/both, away/both"):
            child(GROUPS, "ConfigMap.v1", "both")
        with self.assertRaisesRegex(KeyError, "no objects ConfigMap: there are ConfigMap.v1, Namespace.v1, Pod.v1"):
            child(GROUPS, "ConfigMap", "web")
