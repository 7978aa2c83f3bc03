"""adopt and its parts: owners, names, namespaces and labels of the objects that handlers create."""

from __future__ import annotations

import enum
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, List, Optional, Union

from setpoint._engine.bodies import build_owner_reference
from setpoint._engine.invocation import current_body
from setpoint._engine.objects import Field, metadata_of, walk

# A dictionary, a model of kubernetes or kubernetes_asyncio, an object of pykube, or a list of them.
Objects = Any
Nested = Union[str, Iterable[Field], None]


class _Unset(enum.Enum):
    """The default of arguments for which None means something else."""

    UNSET = enum.auto()


_UNSET = _Unset.UNSET


def append_owner_reference(
    objs: Objects,
    owner: Optional[Mapping[str, Any]] = None,
    *,
    controller: Optional[bool] = True,
    block_owner_deletion: Optional[bool] = True,
) -> None:
    """Make the owner, by default the handled object, own the objects that it does not own yet."""
    reference = build_owner_reference(
        _owner(owner), controller=controller, block_owner_deletion=block_owner_deletion
    )
    for obj in walk(objs):
        metadata = metadata_of(obj)
        if reference.get("uid") not in metadata.owners:
            metadata.add_owner(reference)


def remove_owner_reference(objs: Objects, owner: Optional[Mapping[str, Any]] = None) -> None:
    """Remove the owner, by default the handled object, from the owners of the objects."""
    uid = build_owner_reference(_owner(owner)).get("uid")
    for obj in walk(objs):
        metadata_of(obj).remove_owner(uid)


def label(
    objs: Objects,
    labels: Union[Mapping[str, Optional[str]], None, _Unset] = _UNSET,
    *,
    forced: bool = False,
    nested: Nested = None,
    force: Optional[bool] = None,
) -> None:
    """Add labels, by default those of the handled object; forced replaces other values.

    nested names parts of the objects that get the labels too if they exist: "spec.template".
    """
    if force is not None:
        warnings.warn("force= is deprecated in kopf.label(); use forced=...", DeprecationWarning, stacklevel=2)
        forced = force
    if labels is None or isinstance(labels, _Unset):
        labels = _metadata(_owner(None)).get("labels") or {}
    for obj in walk(objs, _fields(nested)):
        existing = metadata_of(obj).labels
        for key, value in labels.items():
            if forced or key not in existing:
                existing[key] = value


def harmonize_naming(
    objs: Objects,
    name: Union[str, None, _Unset] = _UNSET,
    *,
    forced: bool = False,
    strict: bool = False,
) -> None:
    """Name the objects that have no name after the handled object, or as given.

    Kubernetes completes the name by a suffix, unless strict. forced replaces other names.
    """
    if isinstance(name, _Unset):
        name = _metadata(_owner(None)).get("name")
    if name is None:
        raise LookupError("the name of the owner is unknown: give it as name=")
    for obj in walk(objs):
        metadata = metadata_of(obj)
        if not forced and (metadata.name is not None or metadata.generate_name is not None):
            continue
        metadata.name = name if strict else None
        metadata.generate_name = None if strict else f"{name}-"


def adjust_namespace(
    objs: Objects,
    namespace: Union[str, None, _Unset] = _UNSET,
    *,
    forced: bool = False,
) -> None:
    """Put the objects that have no namespace into that of the handled object, or the given one."""
    if isinstance(namespace, _Unset):
        namespace = _metadata(_owner(None)).get("namespace")
    for obj in walk(objs):
        metadata = metadata_of(obj)
        if forced or metadata.namespace is None:
            metadata.namespace = namespace


def adopt(
    objs: Objects,
    owner: Optional[Mapping[str, Any]] = None,
    *,
    forced: bool = False,
    strict: bool = False,
    nested: Nested = None,
) -> None:
    """Make the objects children of the owner: owned, named after it, in its namespace, with its labels."""
    objs = list(walk(objs))  # A generator would be empty for the second step.
    owner = _owner(owner)
    append_owner_reference(objs, owner)
    harmonize_naming(objs, _metadata(owner).get("name"), forced=forced, strict=strict)
    adjust_namespace(objs, _metadata(owner).get("namespace"), forced=forced)
    label(objs, _metadata(owner).get("labels") or {}, forced=forced, nested=nested)


def _owner(owner: Optional[Mapping[str, Any]]) -> Mapping[str, Any]:
    owner = current_body() if owner is None else owner
    if owner is None:
        raise LookupError("no handler is running, whose object would be the owner: give one as owner=")
    return owner


def _metadata(owner: Mapping[str, Any]) -> Mapping[str, Any]:
    return owner.get("metadata") or {}


def _fields(nested: Nested) -> List[Field]:
    return [nested] if isinstance(nested, str) else list(nested or ())
