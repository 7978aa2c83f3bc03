"""The decorators of the package's own style, apart from those in setpoint.on."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Optional, TypeVar, Union

from setpoint._call import DAEMON_BACKOFF, Call, DaemonCall, Review
from setpoint._calling import CallHandler
from setpoint._engine.filters import MetaFilterToken, check_meta_filter
from setpoint._engine.handlers import DaemonHandler, IndexHandler, ResourceHandler, WebhookHandler, WebhookType, handler_id
from setpoint._engine.index import Index
from setpoint._engine.invocation import Cause, current_call
from setpoint._engine.registry import get_default_registry
from setpoint._engine.selectors import Marker, parse_selector

CallFn = TypeVar("CallFn", bound=Callable[[Call], Any])
DaemonFn = TypeVar("DaemonFn", bound=Callable[[DaemonCall], Any])
ReviewFn = TypeVar("ReviewFn", bound=Callable[[Review], Any])
When = Callable[[Any], bool]
# Seconds, or a text such as "90s", "5m", "1h30m".
Seconds = Union[float, str]
Labels = Mapping[str, Union[str, MetaFilterToken]]
Kind = Union[str, Marker]


def every(
    interval: Seconds, kind: Kind, *, idle: Optional[Seconds] = None, labels: Optional[Labels] = None,
    when: Optional[When] = None, owns: Collection[str] = (), name: Optional[str] = None,
) -> Callable[[CallFn], CallFn]:
    """Call the function for each object at an interval, which counts from the object's creation."""
    times = {"every": seconds("interval", interval), "idle": None if idle is None else seconds("idle=", idle)}
    return on_call(kind, labels=labels, when=when, owns=owns, name=name, **times)


def daemon(
    kind: Kind, *, stop_timeout: Seconds = 30, labels: Optional[Labels] = None, when: Optional[When] = None,
    name: Optional[str] = None,
) -> Callable[[DaemonFn], DaemonFn]:
    """Run the function for each object as long as the object exists. It receives a DaemonCall."""
    options = {"cancellation_backoff": seconds("stop_timeout=", stop_timeout), "cancellation_timeout": 1.0}

    def decorate(fn: DaemonFn) -> DaemonFn:
        _add(DaemonHandler, fn, DaemonCall, kind, name, labels, when, backoff=DAEMON_BACKOFF, **options)
        return fn

    return decorate


def index(
    kind: Kind, *, labels: Optional[Labels] = None, when: Optional[When] = None
) -> Callable[[Callable[[Any], Any]], Index[Any, Any]]:
    """Make an index of the function: it receives an object and returns a dictionary of keys and values.

    The name of the function is the index then: pods_of["n1"] has the values of all objects with that key.
    """

    def decorate(fn: Callable[[Any], Any]) -> Index[Any, Any]:
        own: Index[Any, Any] = Index()
        _add(IndexHandler, fn, lambda cause: cause.body, kind, None, labels, when, index=own)
        return own

    return decorate


def validate(
    kind: Kind, *, operations: Collection[str] = ("CREATE", "UPDATE"), subresource: Optional[str] = None,
    ignore_failures: bool = False, labels: Optional[Labels] = None, when: Optional[When] = None,
    name: Optional[str] = None,
) -> Callable[[ReviewFn], ReviewFn]:
    """Call the function with a Review before a change is stored. Deny refuses it."""
    return _webhook(WebhookType.VALIDATING, locals())


def mutate(
    kind: Kind, *, operations: Collection[str] = ("CREATE", "UPDATE"), subresource: Optional[str] = None,
    ignore_failures: bool = False, labels: Optional[Labels] = None, when: Optional[When] = None,
    name: Optional[str] = None,
) -> Callable[[ReviewFn], ReviewFn]:
    """Call the function with a Review before a change is stored. It may change review.new."""
    return _webhook(WebhookType.MUTATING, locals())


def on_call(
    kind: Kind, *, labels: Optional[Labels], when: Optional[When], name: Optional[str], **options: Any
) -> Callable[[CallFn], CallFn]:
    """Register a function that receives a Call."""
    if isinstance(options.get("owns"), str):
        raise TypeError(f"owns= must be a list, such as [{options['owns']!r}]")

    def decorate(fn: CallFn) -> CallFn:
        _add(CallHandler, fn, None, kind, name, labels, when, **options)
        return fn

    return decorate


def seconds(name: str, value: Seconds) -> float:
    """Return a duration in seconds: a number, or a text such as 90s, 5m or 1h30m."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0:
        return float(value)
    if isinstance(value, str) and re.fullmatch(r"(\d+(\.\d+)?(ms|s|m|h))+", value):
        parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h)", value)
        return sum(float(number) * _UNITS[unit] for number, unit in parts)
    raise ValueError(f"{name} must be seconds, or a text such as '90s', '5m' or '1h30m'; is {value!r}")


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def _webhook(reason: WebhookType, arguments: dict[str, Any]) -> Callable[[ReviewFn], ReviewFn]:
    kind, name, labels, when = (arguments.pop(key) for key in ("kind", "name", "labels", "when"))

    def decorate(fn: ReviewFn) -> ReviewFn:
        _add(WebhookHandler, fn, Review, kind, name, labels, when, reason=reason, **arguments)
        return fn

    return decorate


def _add(
    handler: type[ResourceHandler], fn: Callable[..., Any], about: Optional[Callable[[Cause], Any]], kind: Kind,
    name: Optional[str], labels: Optional[Labels], when: Optional[When], **options: Any,
) -> None:
    """Register a function with one argument, which about makes of the cause of a call."""
    if not callable(fn):
        raise TypeError(f"a handler must be a function, is {fn!r}; is the decorator called without its arguments?")
    check_meta_filter("labels", labels)
    get_default_registry().append(
        handler(
            id=handler_id(fn, name),
            fn=_adapted(fn, about),
            selector=parse_selector((kind,)),
            labels=labels,
            when=None if when is None else _on_body(when),
            **options,
        )
    )


def _on_body(when: When) -> Callable[..., Any]:
    return lambda **kwargs: when(kwargs["body"])


@functools.lru_cache(maxsize=None)
def _adapted(fn: Callable[..., Any], about: Optional[Callable[[Cause], Any]]) -> Callable[..., Any]:
    """Return a function with the arguments of Kopf for one with one argument, the same for each decorator of it."""

    @functools.wraps(fn)
    def call(**kwargs: Any) -> Any:
        if about is None:
            return fn(kwargs["call"])
        argument = about(_cause())
        if isinstance(argument, Review):
            return _reviewed(argument, fn(argument))
        return fn(argument)

    return call


def _reviewed(review: Review, result: Any) -> Any:
    """Take the changes of a review after its function, which may be asynchronous."""
    if not inspect.isawaitable(result):
        return review.finish()

    async def wait() -> None:
        await result
        review.finish()

    return wait()


def _cause() -> Cause:
    running = current_call()
    assert running is not None and running.cause is not None
    return running.cause
