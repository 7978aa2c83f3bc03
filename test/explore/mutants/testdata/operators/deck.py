#!/usr/bin/env python3
import json, sys

seen = {}

def config_map(name, data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}

def customize(parent):
    return {"relatedResources": [{"apiVersion": "v1", "resource": "configmaps", "names": [parent["spec"]["source"]]}]}

def sync(parent, observed, related):
    name, spec, status = parent["metadata"]["name"], parent["spec"], parent.get("status", {})
    size, suit = spec["size"], spec["suit"]
    suits = sorted({"hearts", "spades", "diamonds", "cups", "coins", "swords", "batons", suit})
    colour = next((r["data"]["colour"] for r in related), "none")
    text = f'{suit} {colour} of {",".join(suits)}'
    wanted = [f"{name}-card-{i}" for i in range(size)]
    outdated = [card for card in wanted if card in observed and observed[card]["data"]["text"] != text]
    waiting = outdated[1:]  # One card changes at a time.
    cards = [config_map(card, {"text": observed[card]["data"]["text"] if card in waiting else text}) for card in wanted]
    return {"status": {"cards": size}, "children": cards}

def finalize(observed):
    left = sorted(observed)[:-1]  # The last card goes first.
    return {"children": [config_map(card, observed[card]["data"]) for card in left], "finalized": not observed}

for line in sys.stdin:
    request = json.loads(line)
    groups = request.get("children")
    if groups is None:
        response = customize(request["parent"])
    else:
        observed = {child["metadata"]["name"]: child for child in groups["ConfigMap.v1"].values()}
        related = list(request["related"].get("ConfigMap.v1", {}).values())
        response = finalize(observed) if request["finalizing"] else sync(request["parent"], observed, related)
    print(json.dumps(response), flush=True)
