"""Whether Setpoint must store the former state of objects for a handler, so that a restart does not lose it.

It takes room in the record on the object, and most functions never look at `old` and `diff`.
"""

from __future__ import annotations

from collections.abc import Iterable

from setpoint._engine.arguments import calls, reads
from setpoint._engine.selectors import Selector
from setpoint.kopf._handlers import ChangingHandler

_ARGUMENTS = frozenset({"old", "diff"})
# Functions of a module that become sub-handlers have arguments of their own.
_SUBHANDLERS = frozenset({"execute", "register", "subhandler"})


def needs_previous(definitions: Iterable[ChangingHandler]) -> bool:
    """Report whether a handler looks at the state before an update, in its filters or in its function."""
    return any(
        d.when is not None
        or d.value is not None
        or d.old is not None
        or callable(d.new)
        or reads(d.fn, _ARGUMENTS)
        or calls(d.fn, _SUBHANDLERS)
        for d in definitions
    )


def may_be_stored(selector: Selector) -> bool:
    """Report whether the state may be stored: never that of Secrets."""
    if selector.everything or selector.category:
        return False
    return selector.group not in (None, "") or not ({"secrets", "secret", "Secret"} & set(selector.names))
