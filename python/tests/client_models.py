"""Stand-ins for the client libraries: classes with the names, modules and attributes of theirs."""

import sys
import types


def _model(library, name, attributes):
    def __init__(self, **values):
        for attribute in attributes:
            setattr(self, attribute, values.get(attribute))

    api_names = {attribute: _camel(attribute) for attribute in attributes}
    return type(name, (), {"__module__": f"{library}.client.models.{name.lower()}", "__init__": __init__, "attribute_map": api_names})


def _camel(name):
    first, *others = name.split("_")
    return first + "".join(one.title() for one in others)


def install(library):
    """Install a stand-in for kubernetes or kubernetes_asyncio, and return its module client."""
    client = types.ModuleType(f"{library}.client")
    client.V1ObjectMeta = _model(
        library, "V1ObjectMeta", ["name", "generate_name", "namespace", "labels", "annotations", "owner_references"]
    )
    client.V1OwnerReference = _model(
        library, "V1OwnerReference", ["api_version", "kind", "name", "uid", "controller", "block_owner_deletion"]
    )
    client.V1Pod = _model(library, "V1Pod", ["api_version", "kind", "metadata", "spec"])
    client.V1Job = _model(library, "V1Job", ["api_version", "kind", "metadata", "spec"])
    client.V1JobSpec = _model(library, "V1JobSpec", ["template", "backoff_limit"])
    client.V1PodTemplateSpec = _model(library, "V1PodTemplateSpec", ["metadata", "spec"])
    package = types.ModuleType(library)
    package.client = client
    sys.modules[library] = package
    sys.modules[f"{library}.client"] = client
    return client


def remove(library):
    for name in [library, f"{library}.client"]:
        sys.modules.pop(name, None)


class APIObject:
    """pykube's base class of all kinds."""

    def __init__(self, api, obj):
        self.api = api
        self.obj = obj


APIObject.__module__ = "pykube.objects"


class Pod(APIObject):
    """A kind of a script, as pykube's users declare them."""
