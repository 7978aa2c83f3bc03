"""The errors that handlers raise, and what other exceptions mean."""

from __future__ import annotations

import enum
from typing import Optional


class PermanentError(Exception):
    """The handler cannot succeed with the object as it is; there is no retry."""


class TemporaryError(Exception):
    """The handler may succeed later; there is a retry after the delay, in seconds."""

    def __init__(self, message: Optional[str] = None, /, delay: Optional[float] = 60) -> None:
        super().__init__(message)
        self.delay = delay


class HandlerTimeoutError(PermanentError):
    """The handler has failed for longer than its timeout."""


class HandlerRetriesError(PermanentError):
    """The handler has failed as often as its retries allow."""


class HandlerExit(Exception):
    """The handler called sys.exit, or raised KeyboardInterrupt. The process goes on."""


class DeclarationError(Exception):
    """The handlers of an operator do not fit together. The message has the lines of the author's file."""


class ErrorsMode(enum.Enum):
    """What an exception of a handler means that is neither temporary nor permanent."""

    IGNORED = enum.auto()
    TEMPORARY = enum.auto()
    PERMANENT = enum.auto()
