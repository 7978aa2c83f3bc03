"""The decorators of handlers: `@kopf.on.create('kopfexamples')`."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Collection
from typing import Any, Optional, TypeVar, Union

from setpoint._engine.dicts import FieldSpec, parse_field
from setpoint._engine.errors import ErrorsMode
from setpoint._engine.filters import FilterFn, MetaFilter, ValueFilter, check_meta_filter
from setpoint._engine.handlers import (
    Activity,
    ActivityHandler,
    DaemonHandler,
    Handler,
    IndexHandler,
    ResourceHandler,
    WebhookHandler,
    WebhookType,
    handler_id,
)
from setpoint._engine.registry import get_default_registry
from setpoint._engine.selectors import Marker, parse_selector
from setpoint.kopf import _subhandlers
from setpoint.kopf._handlers import ChangingHandler, Reason, TimerHandler, WatchingHandler
from setpoint.kopf._style import OperatorRegistry

F = TypeVar("F", bound=Callable[..., Any])
Decorator = Callable[[F], F]
Kind = Union[str, Marker]
Delay = Union[float, Callable[..., float], None]

_SELECTOR = ("group", "version", "kind", "plural", "singular", "shortcut", "category")


def startup(
    *,
    id: Optional[str] = None, param: Any = None, errors: Optional[ErrorsMode] = None,
    timeout: Optional[float] = None, retries: Optional[int] = None, backoff: Optional[float] = None,
    registry: Optional[OperatorRegistry] = None,
) -> Decorator[F]:
    """Call the function when the operator starts, before any other handler."""
    return _activity(Activity.STARTUP, locals())


def cleanup(
    *,
    id: Optional[str] = None, param: Any = None, errors: Optional[ErrorsMode] = None,
    timeout: Optional[float] = None, retries: Optional[int] = None, backoff: Optional[float] = None,
    registry: Optional[OperatorRegistry] = None,
) -> Decorator[F]:
    """Call the function when the operator ends, after all other handlers."""
    return _activity(Activity.CLEANUP, locals())


def login(
    *,
    id: Optional[str] = None, param: Any = None, errors: Optional[ErrorsMode] = None,
    timeout: Optional[float] = None, retries: Optional[int] = None, backoff: Optional[float] = None,
    registry: Optional[OperatorRegistry] = None,
) -> Decorator[F]:
    """Call the function to configure client libraries. Setpoint itself uses its own credentials."""
    return _activity(Activity.LOGIN, locals())


def probe(
    *,
    id: Optional[str] = None, param: Any = None, errors: Optional[ErrorsMode] = None,
    timeout: Optional[float] = None, retries: Optional[int] = None, backoff: Optional[float] = None,
    registry: Optional[OperatorRegistry] = None,
) -> Decorator[F]:
    """Call the function when the liveness endpoint is read, which returns its result."""
    return _activity(Activity.PROBE, locals())


def resume(
    *resource: Kind,
    group: Optional[str] = None, version: Optional[str] = None, kind: Optional[str] = None,
    plural: Optional[str] = None, singular: Optional[str] = None, shortcut: Optional[str] = None,
    category: Optional[str] = None,
    id: Optional[str] = None, param: Any = None, errors: Optional[ErrorsMode] = None,
    timeout: Optional[float] = None, retries: Optional[int] = None, backoff: Optional[float] = None,
    deleted: Optional[bool] = None,
    labels: Optional[MetaFilter] = None, annotations: Optional[MetaFilter] = None, when: Optional[FilterFn] = None,
    field: FieldSpec = None, value: ValueFilter = None,
    registry: Optional[OperatorRegistry] = None,
) -> Decorator[F]:
    """Call the function for each object that was handled before, once after each start."""
    return _resource(ChangingHandler, locals(), reason=Reason.RESUME)


def create(
    *resource: Kind,
    group: Optional[str] = None, version: Optional[str] = None, kind: Optional[str] = None,
    plural: Optional[str] = None, singular: Optional[str] = None, shortcut: Optional[str] = None,
    category: Optional[str] = None,
    id: Optional[str] = None, param: Any = None, errors: Optional[ErrorsMode] = None,
    timeout: Optional[float] = None, retries: Optional[int] = None, backoff: Optional[float] = None,
    labels: Optional[MetaFilter] = None, annotations: Optional[MetaFilter] = None, when: Optional[FilterFn] = None,
    field: FieldSpec = None, value: ValueFilter = None,
    registry: Optional[OperatorRegistry] = None,
) -> Decorator[F]:
    """Call the function for each new object."""
    return _resource(ChangingHandler, locals(), reason=Reason.CREATE)


def update(
    *resource: Kind,
    group: Optional[str] = None, version: Optional[str] = None, kind: Optional[str] = None,
    plural: Optional[str] = None, singular: Optional[str] = None, shortcut: Optional[str] = None,
    category: Optional[str] = None,
    id: Optional[str] = None, param: Any = None, errors: Optional[ErrorsMode] = None,
    timeout: Optional[float] = None, retries: Optional[int] = None, backoff: Optional[float] = None,
    labels: Optional[MetaFilter] = None, annotations: Optional[MetaFilter] = None, when: Optional[FilterFn] = None,
    field: FieldSpec = None, value: ValueFilter = None, old: ValueFilter = None, new: ValueFilter = None,
    registry: Optional[OperatorRegistry] = None,
) -> Decorator[F]:
    """Call the function when an object, or a field of it, has changed."""
    return _resource(ChangingHandler, locals(), reason=Reason.UPDATE, needs_change=True)


def delete(
    *resource: Kind,
    group: Optional[str] = None, version: Optional[str] = None, kind: Optional[str] = None,
    plural: Optional[str] = None, singular: Optional[str] = None, shortcut: Optional[str] = None,
    category: Optional[str] = None,
    id: Optional[str] = None, param: Any = None, errors: Optional[ErrorsMode] = None,
    timeout: Optional[float] = None, retries: Optional[int] = None, backoff: Optional[float] = None,
    optional: Optional[bool] = None,
    labels: Optional[MetaFilter] = None, annotations: Optional[MetaFilter] = None, when: Optional[FilterFn] = None,
    field: FieldSpec = None, value: ValueFilter = None,
    registry: Optional[OperatorRegistry] = None,
) -> Decorator[F]:
    """Call the function when an object is being deleted. The object waits, unless optional."""
    return _resource(ChangingHandler, locals(), reason=Reason.DELETE)


def field(
    *resource: Kind,
    group: Optional[str] = None, version: Optional[str] = None, kind: Optional[str] = None,
    plural: Optional[str] = None, singular: Optional[str] = None, shortcut: Optional[str] = None,
    category: Optional[str] = None,
    id: Optional[str] = None, param: Any = None, errors: Optional[ErrorsMode] = None,
    timeout: Optional[float] = None, retries: Optional[int] = None, backoff: Optional[float] = None,
    labels: Optional[MetaFilter] = None, annotations: Optional[MetaFilter] = None, when: Optional[FilterFn] = None,
    field: FieldSpec, value: ValueFilter = None, old: ValueFilter = None, new: ValueFilter = None,
    registry: Optional[OperatorRegistry] = None,
) -> Decorator[F]:
    """Call the function when a field appears, changes or goes."""
    return _resource(ChangingHandler, locals(), needs_change=True)


def event(
    *resource: Kind,
    group: Optional[str] = None, version: Optional[str] = None, kind: Optional[str] = None,
    plural: Optional[str] = None, singular: Optional[str] = None, shortcut: Optional[str] = None,
    category: Optional[str] = None,
    id: Optional[str] = None, param: Any = None,
    labels: Optional[MetaFilter] = None, annotations: Optional[MetaFilter] = None, when: Optional[FilterFn] = None,
    field: FieldSpec = None, value: ValueFilter = None,
    registry: Optional[OperatorRegistry] = None,
) -> Decorator[F]:
    """Call the function for each event of an object, without retries."""
    return _resource(WatchingHandler, locals(), errors=ErrorsMode.IGNORED)


def index(
    *resource: Kind,
    group: Optional[str] = None, version: Optional[str] = None, kind: Optional[str] = None,
    plural: Optional[str] = None, singular: Optional[str] = None, shortcut: Optional[str] = None,
    category: Optional[str] = None,
    id: Optional[str] = None, param: Any = None, errors: Optional[ErrorsMode] = None,
    timeout: Optional[float] = None, retries: Optional[int] = None, backoff: Optional[float] = None,
    labels: Optional[MetaFilter] = None, annotations: Optional[MetaFilter] = None, when: Optional[FilterFn] = None,
    field: FieldSpec = None, value: ValueFilter = None,
    registry: Optional[OperatorRegistry] = None,
) -> Decorator[F]:
    """Index objects by the function's results; handlers have the index as an argument of its name."""
    return _resource(IndexHandler, locals(), suffix_field=False)


def daemon(
    *resource: Kind,
    group: Optional[str] = None, version: Optional[str] = None, kind: Optional[str] = None,
    plural: Optional[str] = None, singular: Optional[str] = None, shortcut: Optional[str] = None,
    category: Optional[str] = None,
    id: Optional[str] = None, param: Any = None, errors: Optional[ErrorsMode] = None,
    timeout: Optional[float] = None, retries: Optional[int] = None, backoff: Optional[float] = None,
    initial_delay: Delay = None, cancellation_backoff: Optional[float] = None,
    cancellation_timeout: Optional[float] = None, cancellation_polling: Optional[float] = None,
    labels: Optional[MetaFilter] = None, annotations: Optional[MetaFilter] = None, when: Optional[FilterFn] = None,
    field: FieldSpec = None, value: ValueFilter = None,
    registry: Optional[OperatorRegistry] = None,
) -> Decorator[F]:
    """Run the function for each object as long as the object exists."""
    return _resource(DaemonHandler, locals())


def timer(
    *resource: Kind,
    group: Optional[str] = None, version: Optional[str] = None, kind: Optional[str] = None,
    plural: Optional[str] = None, singular: Optional[str] = None, shortcut: Optional[str] = None,
    category: Optional[str] = None,
    id: Optional[str] = None, param: Any = None, errors: Optional[ErrorsMode] = None,
    timeout: Optional[float] = None, retries: Optional[int] = None, backoff: Optional[float] = None,
    interval: Optional[float] = None, initial_delay: Delay = None, sharp: Optional[bool] = None,
    idle: Optional[float] = None,
    labels: Optional[MetaFilter] = None, annotations: Optional[MetaFilter] = None, when: Optional[FilterFn] = None,
    field: FieldSpec = None, value: ValueFilter = None,
    registry: Optional[OperatorRegistry] = None,
) -> Decorator[F]:
    """Call the function for each object again and again."""
    return _resource(TimerHandler, locals())


def validate(
    *resource: Kind,
    group: Optional[str] = None, version: Optional[str] = None, kind: Optional[str] = None,
    plural: Optional[str] = None, singular: Optional[str] = None, shortcut: Optional[str] = None,
    category: Optional[str] = None,
    id: Optional[str] = None, param: Any = None,
    operation: Optional[str] = None, operations: Optional[Collection[str]] = None, subresource: Optional[str] = None,
    persistent: Optional[bool] = None, side_effects: Optional[bool] = None, ignore_failures: Optional[bool] = None,
    labels: Optional[MetaFilter] = None, annotations: Optional[MetaFilter] = None, when: Optional[FilterFn] = None,
    field: FieldSpec = None, value: ValueFilter = None,
    registry: Optional[OperatorRegistry] = None,
) -> Decorator[F]:
    """Call the function before an object is stored; AdmissionError refuses it."""
    return _webhook(WebhookType.VALIDATING, locals())


def mutate(
    *resource: Kind,
    group: Optional[str] = None, version: Optional[str] = None, kind: Optional[str] = None,
    plural: Optional[str] = None, singular: Optional[str] = None, shortcut: Optional[str] = None,
    category: Optional[str] = None,
    id: Optional[str] = None, param: Any = None,
    operation: Optional[str] = None, operations: Optional[Collection[str]] = None, subresource: Optional[str] = None,
    persistent: Optional[bool] = None, side_effects: Optional[bool] = None, ignore_failures: Optional[bool] = None,
    labels: Optional[MetaFilter] = None, annotations: Optional[MetaFilter] = None, when: Optional[FilterFn] = None,
    field: FieldSpec = None, value: ValueFilter = None,
    registry: Optional[OperatorRegistry] = None,
) -> Decorator[F]:
    """Call the function before an object is stored; its patch changes the object."""
    return _webhook(WebhookType.MUTATING, locals())


def subhandler(
    *,
    id: Optional[str] = None, param: Any = None, errors: Optional[ErrorsMode] = None,
    timeout: Optional[float] = None, retries: Optional[int] = None, backoff: Optional[float] = None,
    labels: Optional[MetaFilter] = None, annotations: Optional[MetaFilter] = None, when: Optional[FilterFn] = None,
    field: FieldSpec = None, value: ValueFilter = None, old: ValueFilter = None, new: ValueFilter = None,
) -> Decorator[F]:
    """Call the function as a part of the handler that is running, with retries of its own."""
    arguments = locals()
    parent = _subhandlers.current_parent()
    if (old is not None or new is not None) and not parent.needs_change:
        raise TypeError("old= and new= are for sub-handlers of update handlers")

    def decorate(fn: F) -> F:
        options = _checked(fn, arguments)
        identity = handler_id(fn, options.pop("id"), prefix=parent.id)
        _subhandlers.add(ChangingHandler(id=identity, fn=fn, needs_change=parent.needs_change, **options))
        return fn

    return decorate


def register(
    fn: F,
    *,
    id: Optional[str] = None, param: Any = None, errors: Optional[ErrorsMode] = None,
    timeout: Optional[float] = None, retries: Optional[int] = None, backoff: Optional[float] = None,
    labels: Optional[MetaFilter] = None, annotations: Optional[MetaFilter] = None, when: Optional[FilterFn] = None,
) -> F:
    """Call the function as a part of the handler that is running, as subhandler does."""
    decorate: Decorator[F] = subhandler(
        id=id, param=param, errors=errors, timeout=timeout, retries=retries, backoff=backoff,
        labels=labels, annotations=annotations, when=when,
    )
    return decorate(fn)


def _activity(activity: Activity, arguments: dict[str, Any]) -> Decorator[F]:
    registry = arguments.pop("registry")

    def decorate(fn: F) -> F:
        options = _checked(fn, arguments)
        identity = handler_id(fn, options.pop("id"))
        _add(registry, ActivityHandler(id=identity, fn=fn, activity=activity, **options))
        return fn

    return decorate


def _resource(
    kind: type[ResourceHandler], arguments: dict[str, Any], *, suffix_field: bool = True, **fixed: Any
) -> Decorator[F]:
    """Return a decorator that makes a handler of one class of a decorator's arguments."""
    registry = arguments.pop("registry")
    names = {name: arguments.pop(name) for name in _SELECTOR}
    selector = parse_selector(arguments.pop("resource"), **names)

    def decorate(fn: F) -> F:
        options = _checked(fn, arguments)
        suffix = ".".join(options["field"]) if suffix_field else ""
        identity = handler_id(fn, options.pop("id"), suffix=suffix)
        _add(registry, kind(id=identity, fn=fn, selector=selector, **options, **fixed))
        return fn

    return decorate


def _webhook(reason: WebhookType, arguments: dict[str, Any]) -> Decorator[F]:
    operation, operations = arguments.pop("operation"), arguments["operations"]
    if operation is not None:
        warnings.warn("operation= is deprecated, use operations=[...]", DeprecationWarning, stacklevel=3)
        arguments["operations"] = frozenset([*(operations or ()), operation])
    elif operations is not None and not operations:
        raise ValueError("operations= must not be empty; leave it out for all operations")
    return _resource(WebhookHandler, arguments, reason=reason)


def _checked(fn: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a handler without those that are not set; refuse what does not fit together."""
    if not callable(fn):
        raise TypeError(f"a handler must be a function, is {fn!r}; is the decorator called without parentheses?")
    _check_parameters(fn)
    options = dict(arguments)
    for name in ("labels", "annotations"):
        check_meta_filter(name, options.get(name))
    if options.get("when") is not None and not callable(options["when"]):
        raise TypeError(f"when= must be a function, is {options['when']!r}")
    if "field" in options:
        options["field"] = parse_field(options["field"])
        _check_values(options)
    _check_numbers(options)
    # An option that is not set has the default of the handler's class.
    return {name: value for name, value in options.items() if value is not None or name == "id"}


def _check_parameters(fn: Any) -> None:
    """Refuse a function that cannot take all arguments: each of its calls would fail."""
    try:
        parameters = inspect.signature(fn, follow_wrapped=False).parameters.values()
    except (TypeError, ValueError):
        return
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        name = getattr(fn, "__qualname__", repr(fn))
        raise TypeError(f"{name} must accept all arguments of a handler: add **_ to its parameters")


def _check_values(options: dict[str, Any]) -> None:
    values = [name for name in ("value", "old", "new") if options.get(name) is not None]
    if values and not options["field"]:
        raise TypeError(f"{values[0]}= requires field=")
    if "value" in values and len(values) > 1:
        raise TypeError("value= excludes old= and new=")


def _check_numbers(options: dict[str, Any]) -> None:
    for name in ("timeout", "retries", "backoff", "interval", "idle", "initial_delay"):
        number = options.get(name)
        if number is None or (name == "initial_delay" and callable(number)):
            continue
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            raise TypeError(f"{name}= must be a number, is {number!r}")
        if number < 0:
            raise ValueError(f"{name}= must not be negative, is {number!r}")
    if options.get("interval") == 0:
        raise ValueError("interval= must be greater than zero")


def _add(registry: Optional[OperatorRegistry], handler: Handler) -> None:
    (registry if registry is not None else get_default_registry()).append(handler)
