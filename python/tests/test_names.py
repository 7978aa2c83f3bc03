"""Holds docs/kopf-names.md, Kopf's names and the package against each other."""

import re
import unittest
import warnings
from pathlib import Path

import kopf
import kopf.testing
from tests import kopf_names

PAGE = Path(__file__).resolve().parents[2] / "docs" / "kopf-names.md"
STATES = {"same", "better", "differs", "refused"}


def read_page():
    """The rows of the page: section -> name -> state."""
    sections, section = {}, None
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            section = sections.setdefault(line[3:], {})
        row = re.fullmatch(r"\| (`.+`) \| (\w+) \|(.*)\|", line)
        if row:
            for name in re.findall(r"`([^`]+)`", row[1]):
                assert name not in section, f"{name} is listed twice"
                section[name] = row[2]
    return sections


@unittest.skipUnless(PAGE.exists(), "the page is in the repository, not in the sdist")
class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.page = read_page()

    def assert_lists(self, names, *sections):
        listed = set().union(*(self.page[section] for section in sections))
        self.assertEqual(sorted(names), sorted(listed))

    def test_every_state_is_known(self):
        for section in self.page.values():
            self.assertLessEqual(set(section.values()), STATES)

    def test_decorators_functions_and_classes(self):
        names = [f"on.{name}" for name in kopf_names.ON] + [f"lifecycles.{name}" for name in kopf_names.LIFECYCLES]
        names += [f"testing.{name}" for name in kopf_names.TESTING]
        self.assert_lists(names + kopf_names.PACKAGE, "Decorators", "Functions", "Classes and types")

    def test_options(self):
        self.assert_lists(kopf_names.OPTIONS, "Arguments of decorators")

    def test_arguments(self):
        self.assert_lists(kopf_names.ARGUMENTS, "Arguments of handlers")

    def test_settings(self):
        self.assert_lists(kopf_names.SETTINGS, "Settings")

    def test_command_line(self):
        commands = [f"kopf {name}" for name in kopf_names.COMMANDS]
        self.assert_lists(commands + kopf_names.FLAGS, "Command line")

    def test_run(self):
        self.assert_lists(kopf_names.RUN, "Arguments of run, operator and spawn_tasks")


class PackageTest(unittest.TestCase):
    def test_the_package_has_all_names(self):
        for module, names in [
            (kopf, kopf_names.PACKAGE),
            (kopf.on, kopf_names.ON),
            (kopf.lifecycles, kopf_names.LIFECYCLES),
            (kopf.testing, kopf_names.TESTING),
        ]:
            self.assertEqual([], [name for name in names if not hasattr(module, name)], module.__name__)

    def test_the_package_has_no_other_names(self):
        # Modules that were imported are attributes too; Kopf exports testing on request only.
        known = {*kopf_names.PACKAGE, "testing", "cli"}
        public = {name for name in dir(kopf) if not name.startswith("_")}
        self.assertEqual(set(), public - known)

    def test_settings(self):
        settings = kopf.OperatorSettings()
        settings.execution.max_workers = 4
        for name in kopf_names.SETTINGS:
            with self.subTest(name), warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                group, _, key = name.partition(".")
                value = getattr(settings, group)
                if key:
                    # What can be read can be set.
                    setattr(value, key, getattr(value, key))


# Imports of scripts in public repositories.
PRIVATE = """
from kopf._cogs.configs.configuration import OperatorSettings
from kopf._cogs.configs.progress import ProgressRecord
from kopf._cogs.helpers.typedefs import Logger
from kopf._cogs.structs import bodies, dicts, diffs, patches, references
from kopf._cogs.structs.bodies import Body, RawBody, RawEvent, Spec
from kopf._cogs.structs.credentials import ConnectionInfo
from kopf._cogs.structs.dicts import FieldSpec, resolve
from kopf._cogs.structs.diffs import Diff, DiffItem, diff
from kopf._cogs.structs.ephemera import AnyMemo, Memo
from kopf._cogs.structs.ids import HandlerId
from kopf._cogs.structs.patches import Patch
from kopf._cogs.structs.references import EVERYTHING, Namespace, Resource
from kopf._cogs.structs.reviews import UserInfo
from kopf._core.actions import loggers
from kopf._core.actions.execution import ErrorsMode, Logger, PermanentError, TemporaryError
from kopf._core.actions.lifecycles import all_at_once
from kopf._core.engines import posting
from kopf._core.engines.admission import AdmissionError
from kopf._core.engines.posting import event
from kopf._core.intents.causes import Reason
from kopf._core.intents.filters import PRESENT, MetaFilterToken
from kopf._core.intents.handlers import ChangingHandler
from kopf._core.intents.piggybacking import login_via_client
from kopf._core.intents.registries import OperatorRegistry, SmartOperatorRegistry
from kopf._core.reactor.running import run
from kopf._core.reactor.subhandling import execute
from kopf._kits.hierarchies import adopt
from kopf._kits.runner import KopfRunner
from kopf._kits.webhooks import WebhookServer
import kopf._cogs.structs.bodies
import kopf._core.actions.execution
import kopf._core.engines.indexing
"""


class PrivateModulesTest(unittest.TestCase):
    def test_imports_of_public_scripts(self):
        for line in PRIVATE.strip().splitlines():
            with self.subTest(line):
                exec(line, {})

    def test_names_are_those_of_the_public_package(self):
        self.assertIs(kopf._cogs.structs.bodies.Body, kopf.Body)
        self.assertIs(kopf._core.actions.execution.PermanentError, kopf.PermanentError)
        self.assertEqual(list(kopf._cogs.structs.diffs.diff({"a": 1}, {"a": 2})), [("change", ("a",), 1, 2)])

    def test_what_is_not_there(self):
        for line in ("from kopf._cogs.structs.credentials import Vault", "import kopf._cogs.clients.api", "from kopf._cogs.structs import os"):
            with self.subTest(line), self.assertRaises(ImportError):
                exec(line, {})


if __name__ == "__main__":
    unittest.main()
