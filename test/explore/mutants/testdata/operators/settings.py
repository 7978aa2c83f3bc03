#!/usr/bin/env python3
import json, sys

calls, seen = 0, {}

def sync(parent, observed):
    name, values = parent["metadata"]["name"], parent["spec"].get("values", {})
    child = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    if values:  # The API server does not store an empty map.
        child["data"] = values
    return {"status": {"values": len(values)}, "children": [child]}

for line in sys.stdin:
    request = json.loads(line)
    calls += 1
    response = sync(request["parent"], list(request["children"]["ConfigMap.v1"].values()))
    print(json.dumps(response), flush=True)
