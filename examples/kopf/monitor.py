"""A Monitor names an address; while it exists, a daemon connects to it and reports in the status."""

import socket
import time

import kopf
import kubernetes

GROUP, VERSION, PLURAL = "example.com", "v1", "monitors"


@kopf.daemon(GROUP, VERSION, PLURAL, cancellation_timeout=5)
def watch_address(spec, status, name, namespace, stopped, logger, **_):
    state = status.get("state")
    while not stopped:
        now = "up" if accepts(spec["address"]) else "down"
        if now != state:
            state = now
            logger.info("%s is %s", spec["address"], state)
            report(name, namespace, {"state": state, "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())})
        stopped.wait(spec.get("every", 5))
    logger.info("%s is not watched any more", spec["address"])


def accepts(address):
    """Says whether an address accepts connections."""
    host, port = address.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), timeout=2).close()
    except OSError:
        return False
    return True


def report(name, namespace, status):
    kubernetes.client.CustomObjectsApi().patch_namespaced_custom_object_status(
        GROUP, VERSION, namespace, PLURAL, name, {"status": status})
