"""A Tally has a label selector; its status counts the pods of its namespace that have these labels."""

import kopf


@kopf.index("pods")
def pods_by_label(namespace, name, labels, status, **_):
    """Indexes pods by each of their labels."""
    return {(namespace, key, value): (name, status.get("phase")) for key, value in labels.items()}


@kopf.timer("tallies.example.com", interval=2)
def count(spec, status, namespace, patch, pods_by_label: kopf.Index, **_):
    key, value = next(iter(spec["labels"].items()))
    pods = list(pods_by_label.get((namespace, key, value), []))
    counted = {"pods": len(pods), "running": sum(phase == "Running" for _, phase in pods)}
    if counted != status.get("counted"):
        patch.status["counted"] = counted
