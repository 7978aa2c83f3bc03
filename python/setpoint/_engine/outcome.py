"""What the end of a handler means: success, a retry, or a failure for good."""

from __future__ import annotations

import asyncio
import datetime
import json
import os
from collections.abc import Awaitable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Optional

from setpoint._engine.errors import (
    ErrorsMode,
    HandlerRetriesError,
    HandlerTimeoutError,
    PermanentError,
    TemporaryError,
)
from setpoint._engine.handlers import Handler
from setpoint._engine.request import now


class ChildrenPending(TemporaryError):
    """Parts of a handler are not done. The message names those that failed."""


_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


@dataclass(frozen=True)
class Outcome:
    """The end of one call of a handler."""

    result: Any = None
    error: Optional[Exception] = None
    # Seconds until a retry; None if there is none.
    delay: Optional[float] = None
    # A success that is logged once its writes are known to be possible.
    unlogged: bool = False

    @property
    def retried(self) -> bool:
        """Whether the handler is called again."""
        return self.delay is not None

    def finished(self) -> Outcome:
        """Return the same end without its error and retry."""
        return Outcome(self.result)

    @property
    def message(self) -> str:
        """The error for logs and responses."""
        return describe(self.error) if self.error is not None else ""


@dataclass(frozen=True)
class Attempts:
    """How often and since when a handler has failed, and how its errors count by default."""

    count: int = 0
    started: Optional[datetime.datetime] = None
    errors: ErrorsMode = ErrorsMode.TEMPORARY
    backoff: float = 60
    # Whether an edit has brought the call forward. If it fails, the next one comes in its time.
    early: bool = False


async def outcome_of(
    work: Awaitable[Any], handler: Handler, attempts: Attempts, logger: Any, *, writes: bool = False
) -> Outcome:
    """Await a handler, and log and judge its end. If it writes, its response logs the success."""
    try:
        result = await work
    except asyncio.CancelledError:
        raise
    except ChildrenPending as error:
        logger.debug(f"{handler} has unfinished sub-handlers.")
        return Outcome(error=error if str(error) else None, delay=error.delay or 0)
    except TemporaryError as error:
        return _failed(error, handler, attempts, error.delay or 0, logger, trace=False)
    except PermanentError as error:
        logger.error(f"{handler} failed permanently: {describe(error)}")
        return Outcome(error=error)
    except Exception as error:
        return _raised(error, handler, attempts, logger)
    if not writes:
        logger.info(f"{handler} succeeded.")
    return Outcome(result=result, unlogged=writes)


def describe(error: BaseException) -> str:
    """Return the text of an error; that of unexpected ones has the class."""
    if isinstance(error, (TemporaryError, PermanentError)):
        given = error.args and error.args[0] is not None
        return (str(error).strip() if given else "") or type(error).__name__
    text = _refusal(error) or str(error)
    return f"{type(error).__name__}: {text}".removesuffix(": ")


def _refusal(error: BaseException) -> str:
    """Return what an API server refused, if a client's error quotes its response.

    The error itself has the headers of the response too, which differ each time: equal events
    would not be counted as such.
    """
    status, body = getattr(error, "status", None), getattr(error, "body", None)
    if not isinstance(status, int) or not isinstance(body, (str, bytes)):
        return ""
    try:
        message = json.loads(body)["message"]
    except (ValueError, TypeError, KeyError):
        message = body.decode(errors="replace") if isinstance(body, bytes) else body
    return ": ".join(str(part) for part in (f"{status} {getattr(error, 'reason', None) or ''}".strip(), message) if part)


def trace_of(error: BaseException) -> tuple[type[BaseException], BaseException, Optional[TracebackType]]:
    """Return an error for logs, with a traceback that starts in the author's code."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        trace = trace.tb_next
    return type(error), error, trace or error.__traceback__


def _raised(error: Exception, handler: Handler, attempts: Attempts, logger: Any) -> Outcome:
    mode = handler.errors or attempts.errors
    if mode is ErrorsMode.IGNORED:
        logger.error(f"{handler} failed with an exception and will ignore it: {describe(error)}", exc_info=trace_of(error))
        return Outcome()
    if mode is ErrorsMode.PERMANENT:
        logger.error(f"{handler} failed with an exception and will stop now: {describe(error)}", exc_info=trace_of(error))
        return Outcome(error=error)
    backoff = handler.backoff if handler.backoff is not None else attempts.backoff
    return _failed(error, handler, attempts, backoff, logger, trace=True)


def _failed(error: Exception, handler: Handler, attempts: Attempts, delay: float, logger: Any, *, trace: bool) -> Outcome:
    """Return a retry after a delay, or the end if the handler's limits leave none."""
    limit = _limit(error, handler, attempts, delay)
    if limit is not None:
        logger.error(f"{handler} {limit}", exc_info=trace_of(error) if trace else None)
        return Outcome(error=limit)
    again = f" and will try again in {delay:g} seconds" if trace else ""
    what = f"failed with an exception{again}" if trace else "failed temporarily"
    logger.error(f"{handler} {what}: {describe(error)}", exc_info=trace_of(error) if trace else None)
    return Outcome(error=error, delay=delay)


def _count(attempts: int) -> str:
    return "1 attempt" if attempts == 1 else f"{attempts} attempts"


def _limit(error: Exception, handler: Handler, attempts: Attempts, delay: float) -> Optional[PermanentError]:
    runtime = (now() - attempts.started).total_seconds() if attempts.started else 0.0
    if handler.timeout is not None and runtime + delay >= handler.timeout:
        return HandlerTimeoutError(f"gave up, since its timeout of {handler.timeout:g} s leaves no retry: {describe(error)}")
    if handler.retries is not None and not attempts.early and attempts.count + 1 >= handler.retries:
        return HandlerRetriesError(f"gave up after {_count(handler.retries)}: {describe(error)}")
    return None
