"""The object of a call, as handlers see it: read-only views that follow the object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, Optional, TypedDict, cast

from setpoint._engine.dicts import View

Labels = Mapping[str, str]
Annotations = Mapping[str, str]
RawEventType = Literal[None, "ADDED", "MODIFIED", "DELETED", "BOOKMARK"]


class RawMeta(TypedDict, total=False):
    """The metadata of an object, as decoded from JSON."""

    uid: str
    name: str
    namespace: str
    labels: dict[str, str]
    annotations: dict[str, str]
    finalizers: list[str]
    resourceVersion: str
    deletionTimestamp: str
    creationTimestamp: str
    selfLink: str


class RawBody(TypedDict, total=False):
    """An object, as decoded from JSON."""

    apiVersion: str
    kind: str
    metadata: RawMeta
    spec: dict[str, Any]
    status: dict[str, Any]


class RawEvent(TypedDict):
    """An event of a watch."""

    type: RawEventType
    object: RawBody


class MetaEssence(TypedDict, total=False):
    """The metadata that handlers watch."""

    labels: dict[str, str]
    annotations: dict[str, str]


class BodyEssence(TypedDict, total=False):
    """The part of an object that handlers watch."""

    metadata: MetaEssence
    spec: dict[str, Any]
    status: dict[str, Any]


class ObjectReference(TypedDict, total=False):
    """Names an object, for events."""

    apiVersion: str
    kind: str
    namespace: Optional[str]
    name: str
    uid: str


class OwnerReference(TypedDict, total=False):
    """Names an owner in the metadata of an object."""

    controller: bool
    blockOwnerDeletion: bool
    apiVersion: str
    kind: str
    name: str
    uid: str


class Meta(View):
    """The metadata of an object."""

    def __init__(self, body: Body) -> None:
        super().__init__(body, "metadata")

    @property
    def labels(self) -> Labels:
        """The labels; empty if there are none."""
        return View(self._source, "metadata", "labels")

    @property
    def annotations(self) -> Annotations:
        """The annotations; empty if there are none."""
        return View(self._source, "metadata", "annotations")

    @property
    def uid(self) -> str:
        """The uid of the object."""
        return cast(str, self.get("uid"))

    @property
    def name(self) -> str:
        """The name of the object."""
        return cast(str, self.get("name"))

    @property
    def namespace(self) -> Optional[str]:
        """The namespace; None if the object is cluster-scoped."""
        return self.get("namespace")

    @property
    def creation_timestamp(self) -> Optional[str]:
        """When the object was created, in RFC 3339."""
        return self.get("creationTimestamp")

    @property
    def deletion_timestamp(self) -> Optional[str]:
        """When the object was deleted, in RFC 3339; None if it is not being deleted."""
        return self.get("deletionTimestamp")


class Spec(View):
    """The spec of an object; empty if it has none."""

    def __init__(self, body: Body) -> None:
        super().__init__(body, "spec")


class Status(View):
    """The status of an object; empty if it has none."""

    def __init__(self, body: Body) -> None:
        super().__init__(body, "status")


class Body(Mapping[str, Any]):
    """An object. Its views follow it when a daemon's object is replaced by its next state."""

    def __init__(self, source: Mapping[str, Any], /) -> None:
        self._source = source

    def replace(self, source: Mapping[str, Any]) -> None:
        """Show another state of the object."""
        self._source = source

    @property
    def raw(self) -> Mapping[str, Any]:
        """The object as decoded from JSON; not to be changed."""
        return self._source

    @property
    def metadata(self) -> Meta:
        """The metadata of the object."""
        return Meta(self)

    @property
    def meta(self) -> Meta:
        """The metadata of the object."""
        return Meta(self)

    @property
    def spec(self) -> Spec:
        """The spec of the object."""
        return Spec(self)

    @property
    def status(self) -> Status:
        """The status of the object."""
        return Status(self)

    def __getitem__(self, key: str) -> Any:
        return self._source[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._source)

    def __len__(self) -> int:
        return len(self._source)

    def __repr__(self) -> str:
        return repr(dict(self._source))


def build_object_reference(body: Mapping[str, Any]) -> ObjectReference:
    """Return a reference to an object, for events."""
    meta = body.get("metadata", {})
    reference = {
        "apiVersion": body.get("apiVersion"),
        "kind": body.get("kind"),
        "name": meta.get("name"),
        "uid": meta.get("uid"),
        "namespace": meta.get("namespace"),
    }
    return cast(ObjectReference, {key: value for key, value in reference.items() if value})


def build_owner_reference(
    body: Mapping[str, Any], *, controller: Optional[bool] = True, block_owner_deletion: Optional[bool] = True
) -> OwnerReference:
    """Return a reference to an owner, for the metadata of the owned object."""
    meta = body.get("metadata", {})
    reference = {
        "controller": controller,
        "blockOwnerDeletion": block_owner_deletion,
        "apiVersion": body.get("apiVersion"),
        "kind": body.get("kind"),
        "name": meta.get("name"),
        "uid": meta.get("uid"),
    }
    return cast(OwnerReference, {key: value for key, value in reference.items() if value is not None})
