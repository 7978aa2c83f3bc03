import unittest

from setpoint._engine.index import Index, discard, put

A, B = ("ns", "a", "1"), ("ns", "b", "2")


class IndexTest(unittest.TestCase):
    def setUp(self):
        self.index = Index()

    def content(self):
        return {key: sorted(store) for key, store in self.index.items()}

    def test_objects_share_keys(self):
        put(self.index, A, {"x": 1, "y": 2})
        put(self.index, B, {"x": 3})
        self.assertEqual({"x": [1, 3], "y": [2]}, self.content())
        self.assertIn(3, self.index["x"])
        self.assertEqual(2, len(self.index["x"]))

    def test_an_object_changes_its_keys(self):
        put(self.index, A, {"x": 1, "y": 2})
        put(self.index, A, {"y": 3, "z": 4})
        self.assertEqual({"y": [3], "z": [4]}, self.content())
        put(self.index, A, {})
        self.assertEqual({}, self.content())
        self.assertFalse(self.index)

    def test_a_plain_value_has_the_key_none(self):
        put(self.index, A, 1)
        put(self.index, B, [2])
        self.assertEqual([1, [2]], list(self.index[None]))

    def test_discard(self):
        put(self.index, A, {"x": 1})
        put(self.index, B, {"x": 2})
        discard(self.index, A)
        discard(self.index, A)
        self.assertEqual({"x": [2]}, self.content())
        discard(self.index, B)
        self.assertNotIn("x", self.index)
        self.assertIsNone(self.index.get("x"))

    def test_changes_while_a_handler_reads(self):
        put(self.index, A, {"x": 1})
        put(self.index, B, {"x": 2, "y": 3})
        for key in self.index:
            for _ in self.index.get(key, ()):
                discard(self.index, B)
        self.assertEqual({"x": [1]}, self.content())


if __name__ == "__main__":
    unittest.main()
