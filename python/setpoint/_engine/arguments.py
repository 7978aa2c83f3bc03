"""Which of Kopf's arguments a function reads. What none reads, Setpoint need not keep."""

from __future__ import annotations

import dis
import functools
import inspect
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

# Names in a function that may pass all its arguments on.
_INDIRECT = {"locals", "vars", "exec", "eval"}


@functools.lru_cache(maxsize=1024)
def reads(fn: Callable[..., Any], names: frozenset[str]) -> bool:
    """Report whether a function reads one of the arguments, also as a part of its **kwargs. In doubt, it does."""
    if not isinstance(fn, FunctionType) or hasattr(fn, "__wrapped__"):
        return True
    return _code_reads(fn.__code__, names)


def _code_reads(code: CodeType, names: frozenset[str]) -> bool:
    named = set(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    if named & names or set(code.co_names) & _INDIRECT:
        return True
    if code.co_flags & inspect.CO_VARKEYWORDS and _loads(code, _kwargs_name(code)):
        return True
    # A function inside of it may be a sub-handler, with arguments of its own.
    return any(_code_reads(inner, names) for inner in code.co_consts if isinstance(inner, CodeType))


def _kwargs_name(code: CodeType) -> str:
    position = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & inspect.CO_VARARGS)
    return code.co_varnames[position]


def _loads(code: CodeType, name: str) -> bool:
    """Report whether a function, or one inside of it, reads a variable."""
    if name in code.co_cellvars:
        return True
    return any(i.argval == name and i.opname.startswith("LOAD") for i in dis.get_instructions(code))


def calls(fn: Callable[..., Any], names: frozenset[str]) -> bool:
    """Report whether a function names one of the functions. In doubt, it does."""
    if not isinstance(fn, FunctionType) or hasattr(fn, "__wrapped__"):
        return True
    return _code_names(fn.__code__, names)


def _code_names(code: CodeType, names: frozenset[str]) -> bool:
    if set(code.co_names) & names:
        return True
    return any(_code_names(inner, names) for inner in code.co_consts if isinstance(inner, CodeType))
