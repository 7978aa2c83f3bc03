import ast
import graphlib
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# What the modules of a part may import, apart from themselves. The first prefix counts.
LAYERS = {
    "setpoint._serve": ("setpoint._tracing",),
    "setpoint._engine": ("setpoint._serve",),
    "setpoint.kopf": ("setpoint",),
    "setpoint": ("setpoint._serve", "setpoint._engine"),
}


def imports_of(path, name, modules):
    """Yield what a module imports, and whether that is only for type checkers."""
    tree = ast.parse(path.read_text())
    typing = {
        node
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and getattr(branch.test, "id", "") == "TYPE_CHECKING"
        for node in ast.walk(branch)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "setpoint":
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in modules else node.module, node in typing


class LayersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        paths = {path: path.relative_to(ROOT).with_suffix("").parts for path in (ROOT / "setpoint").rglob("*.py")}
        modules = {".".join(parts).removesuffix(".__init__"): path for path, parts in paths.items()}
        cls.imports = {name: list(imports_of(path, name, modules)) for name, path in modules.items()}

    def test_lower_parts_do_not_import_higher_ones(self):
        for name, imported in self.imports.items():
            own, allowed = next((part, LAYERS[part]) for part in LAYERS if name.startswith(part))
            for module, _ in imported:
                part = next(part for part in LAYERS if module.startswith(part))
                with self.subTest(module=name, imports=module):
                    self.assertTrue(part == own or module.startswith(allowed))

    def test_no_circle(self):
        graph = {name: {module for module, typing in imported if not typing} for name, imported in self.imports.items()}
        list(graphlib.TopologicalSorter(graph).static_order())
