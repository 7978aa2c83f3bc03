from setpoint_types import CatHomesSyncRequest, CatHomesSyncResponse, FeederFeedRequest


def sync(request: CatHomesSyncRequest) -> CatHomesSyncResponse:
    lives: str = request["parent"]["spec"]["lives"]
    temper = request["parent"]["spec"]["tempre"]
    pods = request["children"]["Pod.v1"]
    return {"childern": []}


def feed(request: FeederFeedRequest) -> bool:
    return request["reason"] == "Delete"
