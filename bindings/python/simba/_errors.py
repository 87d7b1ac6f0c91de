"""What can go wrong: a class for each code of the library."""

from __future__ import annotations

import enum
from typing import Any

from ._simba import ffi, lib


class Cause(enum.IntEnum):
    """Why a tenure ended."""

    NONE = 0
    STOPPED = 1  #: we wanted it
    EXPIRED = 2  #: no renewal was answered in time
    TAKEN = 3  #: the store says that it is not ours any more
    BROKEN = 4  #: somebody ended it by force
    MAX_HOLD = 5  #: it was held for max_hold
    STALLED = 6  #: no progress was made
    ASKED = 7  #: somebody asked for a hand-over
    UNKNOWN = -1  #: one that only a newer library knows

    @classmethod
    def _missing_(cls, value: object) -> Cause:
        return cls.UNKNOWN


class Error(Exception):
    """A failure; `code` is that of simba/error.h, `native` the store's own."""

    code: int = 0
    native: int = 0

    @property
    def name(self) -> str:
        """A stable word, such as "timed-out"."""
        return ffi.string(lib.simba_status_name(self.code)).decode()


class Invalid(Error, ValueError):
    """A name, id, URL or time is wrong; the message names it."""


class Busy(Error):
    """Tried once: somebody else owns the mutex."""


class TimedOut(Error, TimeoutError):
    """Not acquired in time."""


class Cancelled(Error):
    """The wait was given up."""


class Unreachable(Error, ConnectionError):
    """The store does not answer."""


class Denied(Error, PermissionError):
    """No right to use the store."""


class Misconfigured(Error):
    """Not a store of ours, a newer one, an unfit file system."""


class NotInitialised(Error):
    """Tables are missing and may not be made."""


class Lost(Error):
    """It was ours and is no more."""

    @property
    def cause(self) -> Cause:
        return Cause(self.native)


class UnknownOutcome(Error):
    """No answer: it may have taken effect; a lease lapses by itself."""


class Misuse(Error, RuntimeError):
    """Not allowed now, such as a stop from an own callback."""


class Forked(Error, RuntimeError):
    """The handle belongs to the parent process."""


class Internal(Error):
    """A fault of simba's own."""


_classes = {
    -1: Invalid, -2: Busy, -3: TimedOut, -4: Cancelled, -5: Unreachable,
    -6: Denied, -7: Misconfigured, -8: NotInitialised, -9: Lost,
    -10: UnknownOutcome, -11: Misuse, -12: Forked, -14: Internal,
}


def error_of(code: int, error: Any) -> Error:
    """The exception for a code and what the library says of it."""
    message = ffi.string(error.message).decode(errors="replace")
    made = _classes.get(code, Error)(message)
    made.code = code
    made.native = error.native
    return made


def invalid(message: str) -> Invalid:
    """The exception for what is wrong before the library is asked."""
    made = Invalid(message)
    made.code = -1
    return made


def check(code: int, error: object) -> None:
    if code < 0:
        raise error_of(code, error)
