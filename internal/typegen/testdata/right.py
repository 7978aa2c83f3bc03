from typing import Dict

from setpoint_types import CatHomesSyncRequest, CatHomesSyncResponse, ConfigMapV1, FeederFeedRequest, FeederResponse


def sync(request: CatHomesSyncRequest) -> CatHomesSyncResponse:
    cat = request["parent"]
    lives: int = cat["spec"]["lives"]
    observed: Dict[str, ConfigMapV1] = request["children"]["ConfigMap.v1"]
    child: ConfigMapV1 = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": cat["metadata"]["name"]},
        "data": {"lives": str(lives)},
    }
    return {"status": {"ready": len(observed) > 0}, "children": [child]}


def feed(request: FeederFeedRequest) -> FeederResponse:
    if request["reason"] == "Timer":
        return {"status": {"ready": None}, "patch": {"metadata": {"labels": {"fed": "yes"}}, "spec": {"lives": 8}}}
    return {}
