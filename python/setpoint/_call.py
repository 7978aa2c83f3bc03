"""What handlers of the package receive: a call, a review, and the errors that they raise."""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping, MutableMapping
from typing import Any, Optional

from setpoint._engine.bodies import Body
from setpoint._engine.errors import PermanentError, TemporaryError
from setpoint._engine.invocation import Cause
from setpoint._engine.patch import difference
from setpoint._engine.request import HandlerRequest
from setpoint._engine.reviews import AdmissionError
from setpoint._engine.stopped import DaemonStopped

# When a daemon starts again after an error. Calls have the backoff of Setpoint.
DAEMON_BACKOFF = 10.0

# Objects are the dictionaries of their JSON.
Object = Mapping[str, Any]


class Retry(TemporaryError):
    """The call failed and is repeated: after a number of seconds, or by the backoff of the handler."""

    def __init__(self, message: str, /, after: Optional[float] = None) -> None:
        super().__init__(message, delay=DAEMON_BACKOFF if after is None else after)
        self.after = after


class Permanent(PermanentError):
    """The call failed and cannot succeed until the object changes."""


class Deny(AdmissionError):
    """The change must not be stored. The user sees the message."""

    def __init__(self, message: str, /, code: int = 403) -> None:
        super().__init__(message, code)


class _About:
    """What every call has: the object that it is about."""

    def __init__(self, cause: Cause) -> None:
        self._cause = cause

    @property
    def object(self) -> Body:
        """The object: a mapping, with spec, status and metadata as attributes too."""
        return self._cause.body

    @property
    def name(self) -> str:
        """The name of the object."""
        return self.object.meta.name

    @property
    def namespace(self) -> Optional[str]:
        """The namespace of the object; None if it is cluster-scoped."""
        return self.object.meta.namespace

    @property
    def uid(self) -> str:
        """The UID of the object."""
        return self.object.meta.uid

    @property
    def spec(self) -> Mapping[str, Any]:
        """The spec of the object."""
        return self.object.spec

    @property
    def memory(self) -> Any:
        """Values in the memory of this process, by key or attribute, one set for each object."""
        return self._cause.memo

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose lines name the object."""
        return self._cause.logger


class _Writes(_About):
    """Calls whose response writes."""

    @property
    def patch(self) -> MutableMapping[str, Any]:
        """A merge patch of the object: call.patch["spec"] = {"size": 1}; None removes a field."""
        return self._cause.patch

    @property
    def status(self) -> MutableMapping[str, Any]:
        """A merge patch of the status: call.status["rate"] = 1. To read, use call.object.status."""
        return self._cause.patch.status


class Call(_Writes):
    """Why a handler is called, and what it wants written after it returns."""

    def __init__(self, cause: Cause, request: HandlerRequest) -> None:
        super().__init__(cause)
        self._request = request
        self.message = ""
        self.response: dict[str, list[Any]] = {"apply": [], "delete": [], "conditions": []}
        self.requeue_seconds: Optional[float] = None

    @property
    def reason(self) -> str:
        """Create, Update, Delete, Resume, Drift, Event or Timer."""
        return self._request.reason

    @property
    def previous(self) -> Optional[Object]:
        """The object as the handler saw it last; None if that is not known."""
        return self._request.previous

    @property
    def changes(self) -> list[dict[str, Any]]:
        """How the object differs from previous: path, from and to of each field."""
        return [dict(change) for change in self._request.changes]

    @property
    def attempt(self) -> int:
        """The number of failed calls before."""
        return self._request.attempt

    @property
    def deleted(self) -> bool:
        """Whether the object no longer exists."""
        return self._request.deleted

    def owned(self, api_version: str, kind: str) -> list[Object]:
        """The owned objects of a kind in owns=."""
        group, _, version = api_version.rpartition("/")
        name = ".".join(part for part in (kind, version, group) if part)
        for known in (name, f"{kind}.{api_version}"):
            if known in self._request.owned:
                return list(self._request.owned[known].values())
        return []

    def apply(self, *objects: Object, owned: bool = True) -> None:
        """Create or update objects. They go with their owner, which their namespace is that of by default."""
        for obj in objects:
            self.response["apply"].append(obj if owned else {"object": obj, "unowned": True})

    def delete(
        self, api_version: str, kind: str, name: Optional[str] = None, *,
        selector: Optional[str] = None, namespace: Optional[str] = None, evict: bool = False,
    ) -> None:
        """Delete an owned object by its name, or several by their labels."""
        fields = {"name": name, "selector": selector, "namespace": namespace, "evict": evict or None}
        given = {key: value for key, value in fields.items() if value is not None}
        self.response["delete"].append({"apiVersion": api_version, "kind": kind, **given})

    def event(self, reason: str, message: str = "") -> None:
        """Send an event of the object."""
        self._send("Normal", reason, message)

    def warn(self, reason: str, message: str = "") -> None:
        """Send a warning of the object."""
        self._send("Warning", reason, message)

    def condition(self, type: str, status: bool, reason: str, message: str = "") -> None:
        """Set a condition in the status."""
        text = "True" if status else "False"
        self.response["conditions"].append({"type": type, "status": text, "reason": reason, "message": message})

    def requeue(self, seconds: float) -> None:
        """Call the handler again, although it succeeded."""
        self.requeue_seconds = seconds

    def _send(self, type: str, reason: str, message: str) -> None:
        assert self._cause.events is not None
        self._cause.events.append({"type": type, "reason": reason, "message": message})


class DaemonCall(_Writes):
    """A daemon of one object. The object follows its changes; what is patched is written at the end."""

    @property
    def stopped(self) -> DaemonStopped:
        """True when the daemon shall end. Sleep by stopped.wait(seconds), with await in async functions."""
        stopped: DaemonStopped = self._cause.extra["stopped"]
        return stopped


class Review(_About):
    """A change before it is stored."""

    def __init__(self, cause: Cause) -> None:
        super().__init__(cause)
        # A copy, which a mutating handler may change.
        self.new: Any = copy.deepcopy(dict(cause.body.raw))

    @property
    def operation(self) -> str:
        """CREATE, UPDATE, DELETE or CONNECT."""
        return str(self._cause.extra["operation"])

    @property
    def old(self) -> Optional[Object]:
        """The stored object; None on CREATE."""
        old: Optional[Object] = self._cause.extra["old"]
        return old

    @property
    def subresource(self) -> Optional[str]:
        """The subresource, such as status; None for the object itself."""
        subresource: Optional[str] = self._cause.extra["subresource"]
        return subresource

    @property
    def user(self) -> Mapping[str, Any]:
        """The user: username, uid, groups and extra."""
        user: Mapping[str, Any] = self._cause.extra["userinfo"]
        return user

    @property
    def dry_run(self) -> bool:
        """Whether the API server will not store the change."""
        return bool(self._cause.extra["dryrun"])

    def warn(self, message: str) -> None:
        """Warn the user."""
        self._cause.extra["warnings"].append(message)

    def finish(self) -> None:
        """Store the changes of new. The package calls it."""
        self._cause.patch.update(difference(self._cause.body.raw, self.new))
