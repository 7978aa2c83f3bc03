"""Setpoint for Python: handlers that the `setpoint` binary calls over HTTP.

A process of this package has no loop of its own. It declares its handlers, serves them on a socket,
and Setpoint watches, queues, retries and records.

    from setpoint import Call, on

    @on.change("exchangerates.example.com", "spec.currency", owns=["v1/configmaps"])
    def publish(call: Call):
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": call.name}, "data": {...}}

The module `kopf` has the decorators of Kopf instead, for its scripts.
"""

import sys

# Authors name their files operator.py or queue.py, as modules of the standard library are named. While
# we import those, the author's folder is not searched.
_folder = sys.path[:1]
del sys.path[:1]
try:
    from setpoint import on
    from setpoint._call import Call, DaemonCall, Deny, Permanent, Retry, Review
    from setpoint._decorators import daemon, every, index, mutate, validate
    from setpoint._engine import login, operator  # noqa: F401
    from setpoint._groups import child
    from setpoint._serve import loading, server  # noqa: F401
    from setpoint._tracing import trace_context
finally:
    sys.path[:0] = _folder

__all__ = [
    "Call", "DaemonCall", "Deny", "Permanent", "Retry", "Review",
    "child", "daemon", "every", "index", "mutate", "on", "trace_context", "validate",
]
