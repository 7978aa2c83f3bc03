"""Objects of dictionaries and of client libraries, seen in one way.

Scripts make children as dictionaries, as models of the libraries kubernetes and
kubernetes_asyncio, and as objects of pykube. None of these libraries is imported here: a model is
recognized by the module of its class, and its parts are made of the classes beside it.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple, Union

_MODELS = ("kubernetes.client.models.", "kubernetes_asyncio.client.models.")

# A part of an object: "spec.template", or ("spec", "template").
Field = Union[str, Sequence[str]]


def walk(objects: Any, nested: Sequence[Field] = ()) -> Iterator[Any]:
    """Yield every object of a nested list, and of each object the parts that nested names."""
    if objects is None:
        return
    if _is_pykube(objects):
        yield from walk(objects.obj, nested)
    elif isinstance(objects, Mapping) or _is_model(objects):
        yield objects
        for field in nested:
            part = _part(objects, field)
            if part is not None:  # Only what exists is changed.
                yield part
    elif isinstance(objects, Iterable) and not isinstance(objects, (str, bytes)):
        for one in objects:
            yield from walk(one, nested)
    else:
        yield objects


class Metadata:
    """What the functions of _owners read and change in an object."""

    name: Optional[str]
    generate_name: Optional[str]
    namespace: Optional[str]

    @property
    def labels(self) -> Dict[str, Optional[str]]:
        raise NotImplementedError

    @property
    def owners(self) -> List[Optional[str]]:
        """The UIDs of the owners."""
        raise NotImplementedError

    def add_owner(self, reference: Mapping[str, Any]) -> None:
        raise NotImplementedError

    def remove_owner(self, uid: Optional[str]) -> None:
        raise NotImplementedError


def metadata_of(obj: Any) -> Metadata:
    """The metadata of an object, to read and to change."""
    if isinstance(obj, MutableMapping):
        return _DictMetadata(obj)
    if _is_model(obj):
        return _ModelMetadata(obj)
    raise TypeError(
        f"K8s object class is not supported: {type(obj)}; "
        "use a dict, a model of kubernetes or kubernetes_asyncio, or an object of pykube"
    )


def _dict_field(key: str, null: bool = False) -> Any:
    """A property for a key of a dictionary's metadata; None removes it unless null."""

    def read(self: _DictMetadata) -> Any:
        return (self._obj.get("metadata") or {}).get(key)

    def write(self: _DictMetadata, value: Any) -> None:
        if value is None and not null:
            self._existing().pop(key, None)
        else:
            self._existing()[key] = value

    return property(read, write)


class _DictMetadata(Metadata):
    name = _dict_field("name")
    generate_name = _dict_field("generateName")
    # Kopf writes an explicit null for owners without a namespace.
    namespace = _dict_field("namespace", null=True)

    def __init__(self, obj: MutableMapping[str, Any]) -> None:
        self._obj = obj

    @property
    def labels(self) -> Dict[str, Optional[str]]:
        labels: Dict[str, Optional[str]] = self._default("labels", {})
        return labels

    @property
    def owners(self) -> List[Optional[str]]:
        return [ref.get("uid") for ref in self._default("ownerReferences", [])]

    def add_owner(self, reference: Mapping[str, Any]) -> None:
        self._default("ownerReferences", []).append(dict(reference))

    def remove_owner(self, uid: Optional[str]) -> None:
        references = self._default("ownerReferences", [])
        references[:] = [ref for ref in references if ref.get("uid") != uid]

    def _existing(self) -> Any:
        # The key may be there without a value: YAML reads an empty metadata as None.
        if self._obj.get("metadata") is None:
            self._obj["metadata"] = {}
        return self._obj["metadata"]

    def _default(self, key: str, value: Any) -> Any:
        metadata = self._existing()
        if metadata.get(key) is None:
            metadata[key] = value
        return metadata[key]


def _model_field(attribute: str) -> Any:
    """A property for an attribute of a model's metadata."""

    def read(self: _ModelMetadata) -> Any:
        return getattr(self._meta, attribute)

    def write(self: _ModelMetadata, value: Any) -> None:
        setattr(self._meta, attribute, value)

    return property(read, write)


class _ModelMetadata(Metadata):
    name = _model_field("name")
    generate_name = _model_field("generate_name")
    namespace = _model_field("namespace")

    def __init__(self, obj: Any) -> None:
        self._classes = _classes_beside(type(obj))
        if obj.metadata is None:
            obj.metadata = self._classes.V1ObjectMeta()
        self._meta = obj.metadata

    @property
    def labels(self) -> Dict[str, Optional[str]]:
        if self._meta.labels is None:
            self._meta.labels = {}
        labels: Dict[str, Optional[str]] = self._meta.labels
        return labels

    @property
    def owners(self) -> List[Optional[str]]:
        return [ref.uid for ref in self._meta.owner_references or []]

    def add_owner(self, reference: Mapping[str, Any]) -> None:
        model = self._classes.V1OwnerReference(
            api_version=reference.get("apiVersion"),
            kind=reference.get("kind"),
            name=reference.get("name"),
            uid=reference.get("uid"),
            controller=reference.get("controller"),
            block_owner_deletion=reference.get("blockOwnerDeletion"),
        )
        self._meta.owner_references = [*(self._meta.owner_references or []), model]

    def remove_owner(self, uid: Optional[str]) -> None:
        self._meta.owner_references = [ref for ref in self._meta.owner_references or [] if ref.uid != uid]


def _is_model(obj: Any) -> bool:
    return any(base.__module__.startswith(_MODELS) for base in type(obj).__mro__)


def _is_pykube(obj: Any) -> bool:
    bases: List[Tuple[str, str]] = [(base.__module__.split(".")[0], base.__name__) for base in type(obj).__mro__]
    return ("pykube", "APIObject") in bases


def _classes_beside(model: type) -> Any:
    """The module client of the library that the model belongs to."""
    base = next(base for base in model.__mro__ if base.__module__.startswith(_MODELS))
    return importlib.import_module(base.__module__.split(".")[0] + ".client")


def _part(obj: Any, field: Field) -> Any:
    """A part of an object, or None. Parts of models go by their names in the API."""
    for key in field.split(".") if isinstance(field, str) else field:
        if isinstance(obj, Mapping):
            obj = obj.get(key)
        elif obj is not None:
            names = [name for name, api_name in getattr(obj, "attribute_map", {}).items() if api_name == key]
            obj = getattr(obj, names[0] if names else key, None)
    return obj
