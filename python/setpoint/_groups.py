"""Groups of objects in requests of hooks: by kind and apiVersion, and then by key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional, TypeVar

ObjectT = TypeVar("ObjectT", bound=Mapping[str, Any])


def child(groups: Mapping[str, Mapping[str, ObjectT]], kind: str, name: str) -> Optional[ObjectT]:
    """Return an object of a group by its name, or None: child(children, "ConfigMap.v1", "web").

    Keys of namespaced objects are namespace/name in requests of version v2; a name alone finds them as well.
    KeyError if there is no such group, LookupError if objects in several namespaces have the name.
    """
    if kind not in groups:
        raise KeyError(f"there are no objects {kind}: there are {', '.join(groups) or 'none'}")
    group = groups[kind]
    if name in group:
        return group[name]
    keys = [key for key in group if key.endswith(f"/{name}")]
    if len(keys) > 1:
        raise LookupError(f"there are several {kind} {name}: name one of {', '.join(keys)}")
    return group[keys[0]] if keys else None
