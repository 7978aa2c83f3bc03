"""The operator of shops. Setpoint calls its functions."""

from setpoint import Call, on

KIND = "shops.example.com"
OWNS = ["v1/configmaps"]


@on.change(KIND, "spec", owns=OWNS)
@on.drift(KIND, owns=OWNS)
def apply(call: Call):
    """Return the objects that a Shop should own.

    Setpoint calls it for each new Shop, when its spec changes, and when another client changes or deletes an
    object that it owns.
    """
    parent, name = call.object, call.name
    call.status["ready"] = True
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name},
            "data": {"message": parent["spec"]["message"]},
        },
    ]
