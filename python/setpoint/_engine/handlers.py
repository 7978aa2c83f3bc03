"""What decorators declare: a function, what it is called for, and how its errors count."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Collection
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any, Optional, Union

from setpoint._engine.dicts import FieldPath
from setpoint._engine.errors import ErrorsMode
from setpoint._engine.filters import FilterFn, MetaFilter, ValueFilter
from setpoint._engine.selectors import Selector

HandlerId = str


class Activity(enum.Enum):
    """Why a handler of the whole operator is called."""

    STARTUP = "startup"
    CLEANUP = "cleanup"
    LOGIN = "login"
    PROBE = "probe"


@dataclass(frozen=True, eq=False)
class Handler:
    """A function and how its errors count."""

    id: HandlerId
    fn: Callable[..., Any]
    param: Any = None
    errors: Optional[ErrorsMode] = None
    timeout: Optional[float] = None
    retries: Optional[int] = None
    backoff: Optional[float] = None

    def __str__(self) -> str:
        return f"{self.title} {self.id!r}"

    @property
    def title(self) -> str:
        """What logs call the handler."""
        return "Handler"

    @property
    def where(self) -> str:
        """The file and line of the function."""
        code = getattr(unwrap(self.fn), "__code__", None)
        return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(self.fn)


@dataclass(frozen=True, eq=False)
class ActivityHandler(Handler):
    """A handler of the whole operator."""

    activity: Activity = Activity.STARTUP

    @property
    def title(self) -> str:
        return "Activity"


@dataclass(frozen=True, eq=False)
class ResourceHandler(Handler):
    """A handler of objects. A sub-handler has no selector: it is for its parent's object."""

    selector: Optional[Selector] = None
    labels: Optional[MetaFilter] = None
    annotations: Optional[MetaFilter] = None
    when: Optional[FilterFn] = None
    field: FieldPath = ()
    value: ValueFilter = None

    @property
    def kind(self) -> str:
        """What tells handlers with one id apart: the name of the class, or the reason of a call."""
        return type(self).__name__.replace("Handler", "").lower()

    @property
    def has_record(self) -> bool:
        """Whether objects have a record with the handler's name."""
        return False

    @property
    def is_called_for_its_field(self) -> bool:
        """Whether Setpoint calls the handler for changes of its field only."""
        return False


@dataclass(frozen=True, eq=False)
class DaemonHandler(ResourceHandler):
    """A function that runs as long as the object exists."""

    initial_delay: Union[float, Callable[..., float], None] = None
    cancellation_backoff: Optional[float] = None
    cancellation_timeout: Optional[float] = None
    cancellation_polling: Optional[float] = None

    @property
    def title(self) -> str:
        return "Daemon"


@dataclass(frozen=True, eq=False)
class IndexHandler(ResourceHandler):
    """A function whose results make an index of objects."""

    # The index, if the script has it already; else the operator makes one.
    index: Optional[Any] = None

    @property
    def title(self) -> str:
        return "Indexer"


class WebhookType(enum.Enum):
    """What an admission handler does with a request."""

    VALIDATING = "validating"
    MUTATING = "mutating"


@dataclass(frozen=True, eq=False)
class WebhookHandler(ResourceHandler):
    """A handler of admission requests."""

    reason: WebhookType = WebhookType.VALIDATING
    operations: Optional[Collection[str]] = None
    subresource: Optional[str] = None
    persistent: Optional[bool] = None
    side_effects: Optional[bool] = None
    ignore_failures: Optional[bool] = None

    @property
    def title(self) -> str:
        return "Webhook"


def unwrap(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function inside of partials and decorators that use functools.wraps."""
    while True:
        if isinstance(fn, functools.partial):
            fn = fn.func
        elif hasattr(fn, "__wrapped__"):
            fn = fn.__wrapped__
        else:
            return fn


def handler_id(fn: Callable[..., Any], id: Optional[str], *, prefix: str = "", suffix: str = "") -> HandlerId:
    """Return the id of a handler: that given, or the function's qualified name, with prefix and suffix."""
    if id is not None and not isinstance(id, str):
        raise TypeError(f"id= must be a string, is {id!r}")
    name = id if id is not None else _function_id(fn)
    return "/".join(part for part in (prefix, name, suffix) if part)


def _function_id(fn: Callable[..., Any]) -> str:
    inner = unwrap(fn)
    if isinstance(inner, FunctionType) and inner.__name__ == "<lambda>":
        return f"lambda:{inner.__code__.co_filename}:{inner.__code__.co_firstlineno}"
    if isinstance(inner, (FunctionType, MethodType)):
        return inner.__qualname__
    raise ValueError(f"{fn!r} has no name of its own: give id=")
