"""Which kinds a handler is for. Setpoint resolves selectors by discovery."""

from __future__ import annotations

import enum
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Optional, Union


class Marker(enum.Enum):
    """Stands for all kinds."""

    EVERYTHING = enum.auto()

    def __repr__(self) -> str:
        return "kopf.EVERYTHING"


EVERYTHING = Marker.EVERYTHING

_VERSION = re.compile(r"v\d+((alpha|beta)\d+)?")


@dataclass(frozen=True)
class Resource:
    """A kind that the API server serves."""

    group: str
    version: str
    plural: str
    kind: Optional[str] = None
    singular: Optional[str] = None
    shortcuts: frozenset[str] = frozenset()
    categories: frozenset[str] = frozenset()
    subresources: frozenset[str] = frozenset()
    namespaced: Optional[bool] = None
    preferred: bool = True
    verbs: frozenset[str] = field(default_factory=frozenset)

    def __hash__(self) -> int:
        return hash((self.group, self.version, self.plural))

    def __repr__(self) -> str:
        return f"{self.plural}.{self.version}.{self.group}".rstrip(".")

    @property
    def name(self) -> str:
        """The plural and the group, as kubectl has it."""
        return f"{self.plural}.{self.group}".strip(".")

    @property
    def api_version(self) -> str:
        """The apiVersion of objects of this kind."""
        return f"{self.group}/{self.version}".strip("/")

    def get_url(self, *, namespace: Optional[str] = None, name: Optional[str] = None) -> str:
        """Return the path of the kind, or of one object, at the API server."""
        parts = ["apis" if self.group else "api", self.group, self.version]
        parts += ["namespaces", namespace] if namespace else []
        return "/" + "/".join(part for part in [*parts, self.plural, name] if part)


@dataclass(frozen=True)
class Selector:
    """Selects kinds. All fields that are set must match; a name is any of a kind's names."""

    group: Optional[str] = None
    version: Optional[str] = None
    name: Optional[str] = None
    plural: Optional[str] = None
    singular: Optional[str] = None
    kind: Optional[str] = None
    shortcut: Optional[str] = None
    category: Optional[str] = None
    everything: bool = False

    def declaration(self) -> dict[str, Any]:
        """Return the selector as Setpoint reads it."""
        names = {
            "group": self.group,
            "version": self.version,
            "name": self.name,
            "plural": self.plural,
            "singular": self.singular,
            "kind": self.kind,
            "shortName": self.shortcut,
            "category": self.category,
            "any": self.everything or None,
        }
        return {name: value for name, value in names.items() if value is not None}

    @property
    def names(self) -> Collection[str]:
        """The names by which the selector may select one kind."""
        return [n for n in (self.name, self.plural, self.kind, self.singular, self.shortcut) if n]

    def may_overlap(self, other: Selector) -> bool:
        """Report whether two selectors may select one kind, as far as their texts tell."""
        for mine, theirs in ((self.group, other.group), (self.version, other.version)):
            if mine is not None and theirs is not None and mine != theirs:
                return False
        broad = any(s.everything or s.category for s in (self, other))
        return broad or bool({_stem(name) for name in self.names} & {_stem(name) for name in other.names})

    def __str__(self) -> str:
        name = next(iter(self.names), None) or self.category or "everything"
        return ".".join(part for part in (name, self.version, self.group) if part)


def _stem(name: str) -> str:
    """Return what the plural, the singular and the kind have in common, in most cases."""
    stem = name.lower()
    for plural, singular in (("ies", "y"), ("sses", "ss"), ("s", "")):
        if stem.endswith(plural) and not stem.endswith("ss"):
            return stem[: -len(plural)] + singular
    return stem


def parse_selector(arguments: tuple[Any, ...], **names: Optional[str]) -> Selector:
    """Return the selector of a decorator's arguments."""
    positional = _parse_positional(arguments)
    given = {name: value for name, value in names.items() if value is not None}
    for name, value in given.items():
        if not isinstance(value, str):
            raise TypeError(f"{name}= must be a string, is {value!r}")
        if name in positional and positional[name] != value:
            raise TypeError(f"{name}= is given twice: {positional[name]!r} and {value!r}")
    selector = Selector(**{**positional, **given})
    kinds = [*selector.names, *([selector.category] if selector.category else [])]
    if selector.everything:
        kinds.append("kopf.EVERYTHING")
    if len(kinds) > 1:
        raise TypeError(f"the kind is given {len(kinds)} times: {', '.join(map(str, kinds))}")
    if not kinds:
        raise TypeError("no kind is given: add its plural, such as 'kopfexamples', or kopf.EVERYTHING")
    return selector


def _parse_positional(arguments: tuple[Any, ...]) -> dict[str, Any]:
    """Read ('x'), ('x.group'), ('x.v1.group'), ('group/v1', 'x'), ('group', 'x') or ('group', 'v1', 'x')."""
    if not arguments:
        return {}
    if any(callable(argument) for argument in arguments):
        raise TypeError(
            "a function as a selector of kinds is not supported, because Setpoint finds kinds before it calls "
            "Python: give group=, category= or kopf.EVERYTHING, and select in when="
        )
    if len(arguments) > 3:
        raise TypeError(f"a kind has at most three parts (group, version, plural); {len(arguments)} are given")
    *place, name = arguments
    for argument in place:
        if not isinstance(argument, str):
            raise TypeError(f"the group and the version of a kind must be strings, {argument!r} is not")
    if not isinstance(name, (str, Marker)) or name == "":
        raise TypeError(f"the name of a kind must be a string such as 'kopfexamples', is {name!r}")
    if not place and isinstance(name, str):
        return _parse_dotted(name)
    return {**_parse_place(place), **_named(name)}


def _parse_place(place: list[str]) -> dict[str, Any]:
    if len(place) == 2:
        return {"group": place[0], "version": place[1]}
    if len(place) == 1 and "/" in place[0]:
        group, _, version = place[0].rpartition("/")
        return {"group": group, "version": version}
    if place == ["v1"]:
        return {"group": "", "version": "v1"}
    return {"group": place[0]} if place else {}


def _parse_dotted(text: str) -> dict[str, Any]:
    name, dot, rest = text.partition(".")
    if not dot:
        return {"name": name}
    version, _, group = rest.partition(".")
    if _VERSION.fullmatch(version):
        return {"name": name, "version": version, "group": group}
    return {"name": name, "group": rest}


def _named(name: Union[str, Marker]) -> dict[str, Any]:
    return {"everything": True} if isinstance(name, Marker) else {"name": name}
