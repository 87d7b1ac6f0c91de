"""Stores and what is made of them, over the C library.

The interpreter's lock is let go in every call. What a callback needs is found by
a number in `_live`, so a handle that is in use is never collected under it; at
exit whatever is still open is closed, which releases what is held.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import logging
import math
import os
import queue
import threading
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Callable, Iterator, Optional, Union

from ._errors import (Busy, Cause, Error, Misuse, TimedOut,
                      Unreachable, check, error_of, invalid)
from ._simba import ffi, lib

Duration = Union[float, int, timedelta]  #: seconds
logger = logging.getLogger("simba")

_numbers = itertools.count(1)
_live: dict[int, Any] = {}
_lock = threading.Lock()


def ms(duration: Optional[Duration], none: int) -> int:
    """Whole milliseconds, rounded up: who waits for 1 µs does not mean 0. To C
    less than 0 is "for ever" or "as configured", which is None here."""
    if duration is None:
        return none
    if isinstance(duration, timedelta):
        duration = duration.total_seconds()
    if duration < 0:
        raise invalid(f"a duration is negative: {duration} s")
    return math.ceil(round(duration * 1000, 6))


def _text(text: Optional[str]) -> Any:
    if text is None:
        return ffi.NULL
    if "\0" in text:  # where C ends: it would be another name
        raise invalid("a name, id or URL has a NUL in it")
    return ffi.new("char[]", text.encode())


@dataclass(frozen=True)
class Owner:
    """Who owned a mutex; times are milliseconds of the store's clock."""

    id: str  #: empty: nobody
    token: int  #: fencing token, 0 when none is known
    acquired_at_ms: int
    ttl_at_ms: int
    transition_at_ms: int
    is_broken: bool

    def __bool__(self) -> bool:
        return self.id != ""


@dataclass(frozen=True)
class State:
    """A change: the owner before and the owner after."""

    before: Owner
    after: Owner
    has_gap: bool  #: of a watch: others may have come and gone in between
    cause: Cause  #: in on_released: why the tenure ended


def _owner(c: Any) -> Owner:
    return Owner(ffi.string(c.id).decode(), c.token, c.acquired_at_ms,
                 c.ttl_at_ms, c.transition_at_ms, c.is_broken)


def _state(c: Any) -> State:
    return State(_owner(c.before), _owner(c.after), c.has_gap, Cause(c.cause))


@dataclass(frozen=True)
class Times:
    """The times of a tenure, in seconds; None: as the store is configured."""

    ttl: Optional[Duration] = None
    transition: Optional[Duration] = None
    budget: Optional[Duration] = None  #: what a callback has to end
    max_hold: Optional[Duration] = None
    min_hold: Optional[Duration] = None
    progress: Optional[Duration] = None  #: renewed only so long without a sign

    def fill(self, times: Any) -> None:
        times.ttl_ms = ms(self.ttl, 0)
        times.transition_ms = ms(self.transition, -1)
        times.budget_ms = ms(self.budget, 0)
        times.max_hold_ms = ms(self.max_hold, 0)
        times.min_hold_ms = ms(self.min_hold, 0)
        times.progress_ms = ms(self.progress, 0)


# --- callbacks -------------------------------------------------------------


_thread = threading.local()  # .inside: whose callbacks this thread is in


def _run(user: Any, name: str, *arguments: Any) -> None:
    """Call what a live handle has under this name. It may raise: that is
    logged, and the library goes on as if it had returned."""
    handle = _live.get(int(ffi.cast("intptr_t", user)))
    call = getattr(handle, name, None)
    outer = getattr(_thread, "inside", ())
    _thread.inside = (*outer, handle)
    try:
        if call is not None:
            call(*arguments)
    except BaseException:
        logger.exception("%s: %s raised", handle, name)
    finally:
        _thread.inside = outer


@ffi.def_extern()
def py_acquired(user: Any, state: Any) -> None:
    _run(user, "on_acquired", _state(state))


@ffi.def_extern()
def py_released(user: Any, state: Any) -> None:
    _run(user, "on_released", _state(state))


@ffi.def_extern()
def py_changed(user: Any, state: Any) -> None:
    _run(user, "on_changed", _state(state))


@ffi.def_extern()
def py_lost(user: Any, error: Any) -> None:
    _run(user, "on_lost", error_of(error.code, error))


# The library's log must not be held up, so messages go through a queue.
_messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
_levels = [logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG]
_writer: Optional[threading.Thread] = None


def _write() -> None:
    while True:
        level, component, message = _messages.get()
        logger.log(level, "%s: %s", component, message)


@ffi.def_extern()
def py_log(user: Any, level: int, component: Any, message: Any) -> None:
    _messages.put((_levels[level], ffi.string(component).decode(),
                   ffi.string(message).decode(errors="replace")))


# --- handles ---------------------------------------------------------------


class Handle:
    """What all have in common: a C handle, closed once, and at exit.

    A signal handler may raise between any two lines, and may ask or close as
    well. So it is C that notes a handle where it is opened and closed, and the
    `with` of a lock that notes a thread in a call: no signal is seen half-way
    through these. What a handler closes within a call of its own thread is
    closed when that call ends.
    """

    _close: Callable[[Any], None]
    _cell: Any = [None]  #: of C, where the handle is noted
    _is_closed = False
    _closer = 0  #: the thread that closes it at the end of its call

    def __init__(self) -> None:
        self._number = next(_numbers)
        self._renew_locks()

    def _renew_locks(self) -> None:
        self._closers = threading.RLock()
        self._users: dict[int, threading.Lock] = {}  # by thread

    @property
    def _user(self) -> Any:
        return ffi.cast("void *", self._number)

    def _open(self, function: Callable[..., int], kind: str, *given: Any) -> None:
        error = ffi.new("simba_error *")
        self._cell = ffi.new(kind + " **")
        with _lock:
            _live[self._number] = self
        try:
            check(function(*given, self._cell, error), error)
        except BaseException:
            self._is_closed = True
            Handle.close(self)
            raise

    def _use(self, function: Callable[..., Any], *given: Any) -> Any:
        """Call it with the C handle, which is not freed meanwhile."""
        self._handle  # a closed one is not entered, so who closes waits little
        mine = self._mine()
        if mine.locked():  # by the call that a signal handler runs in
            return function(self._handle, *given)
        try:
            with mine:
                return function(self._handle, *given)
        finally:
            if self._closer == threading.get_ident():
                self.close()

    def _mine(self) -> threading.Lock:
        """None but this thread takes it."""
        return self._users.setdefault(threading.get_ident(), threading.Lock())

    def _ask(self, function: Callable[..., Any], closed: Any) -> Any:
        """The same for what a closed handle answers, too."""
        try:
            return self._use(function)
        except ValueError:
            return closed

    def _call(self, function: Callable[..., int], *given: Any) -> int:
        error = ffi.new("simba_error *")
        code: int = self._use(function, *given, error)
        check(code, error)
        return code

    @property
    def _handle(self) -> Any:
        if self._is_closed or not self._cell[0]:
            raise ValueError("the handle is closed")
        return self._cell[0]

    def close(self) -> None:
        """Stop or release if need be, and free. Again is a no-op, which waits
        for another thread that closes it. In a signal handler that came in a
        call of this handle it is done when that call ends."""
        if self in getattr(_thread, "inside", ()):
            raise Misuse("a handle cannot be closed by its own callback")
        mine = self._mine()
        if mine.locked():
            self._close_later()
            return
        with self._closers, mine:
            try:
                if self._cell[0]:
                    self._let_go(mine)
                    self._close(self._cell)
            finally:
                if self._is_closed and not self._cell[0]:
                    _live.pop(self._number, None)

    def _close_later(self) -> None:
        self._is_closed = True
        self._closer = threading.get_ident()

    def _let_go(self, mine: threading.Lock) -> None:
        """Let none but this thread use it from now on."""
        self._is_closed = True
        try:
            for user in list(self._users.values()):
                while user is not mine and user.locked():
                    self._hurry()
                    time.sleep(0.005)
        except BaseException:
            self._is_closed = False
            raise

    def _hurry(self) -> None:
        """End what another thread waits for."""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


@atexit.register
def _close_all() -> None:
    # What was made last goes first: stores outlive what was made of them.
    for _, handle in sorted(_live.items(), reverse=True):
        try:
            handle.close()
        except Exception:
            logger.exception("%s: cannot be closed", handle)


def _forget() -> None:
    """In a forked child: what is open is the parent's. Locks may be held by
    threads that are not here."""
    global _lock, _messages, _writer
    _lock = threading.Lock()
    _messages = queue.SimpleQueue()
    _writer = None
    for handle in _live.values():
        handle._renew_locks()


os.register_at_fork(after_in_child=_forget)


class Store(Handle):
    """A place where mutexes live. Without a URL it is the configured one.

    `wait` is how long to wait for a server that is down: None for ever, 0 not
    at all, and then who wants a mutex waits for it. With `dispatch` callbacks
    run only in dispatch(), to be called when fileno() is readable, so a program
    with a poll loop needs no thread for them.
    """

    _close = staticmethod(lib.py_store_close)

    def __init__(self, url: Optional[str] = None, *,
                 wait: Optional[Duration] = 0,
                 dispatch: bool = False) -> None:
        global _writer
        super().__init__()
        options = ffi.new("simba_store_options *")
        lib.py_init(options, ffi.NULL, ffi.NULL, ffi.NULL, ffi.NULL)
        options.log = lib.py_log
        options.wait_ms = ms(wait, -1)
        options.dispatch = dispatch
        if _writer is None:
            _writer = threading.Thread(target=_write, name="simba-log",
                                       daemon=True)
            _writer.start()
        self._open(lib.simba_store_open, "simba_store", _text(url), options)

    def close(self) -> None:
        """Close it, and before that what was made of it."""
        if self._close_made():
            super().close()
        else:  # a signal came in a call of theirs; its end calls this again
            self._close_later()

    def _close_made(self) -> bool:
        """False: this thread is in a call of one."""
        made = [handle for _, handle in sorted(_live.items(), reverse=True)
                if isinstance(handle, OfStore) and handle.store is self]
        for handle in made:
            handle.close()
        return not any(handle._mine().locked() for handle in made)

    def _let_go(self, mine: threading.Lock) -> None:
        super()._let_go(mine)
        self._close_made()  # what another thread was opening

    def fileno(self) -> int:
        """Readable while callbacks wait; for select, poll and add_reader."""
        fd: int = self._use(lib.simba_store_fd)
        if fd < 0:
            raise ValueError("the store was opened without dispatch")
        return fd

    def dispatch(self) -> int:
        """Run the callbacks that wait; how many there were."""
        return self._call(lib.simba_store_dispatch)


StoreLike = Union[Store, str, None]


class OfStore(Handle):
    """A handle of a store, or of a URL: then it has a store of its own."""

    def __init__(self, store: StoreLike) -> None:
        self._own = None if isinstance(store, Store) else Store(store)
        self.store: Store = self._own or store  # type: ignore[assignment]
        super().__init__()  # its number is above that of its store

    @contextlib.contextmanager
    def _opening(self) -> Iterator[None]:
        """What fails in it leaves nothing open."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def _open(self, function: Callable[..., int], kind: str, *given: Any) -> None:
        opening = super()._open
        self.store._use(lambda store: opening(function, kind, store, *given))

    def close(self) -> None:
        try:
            super().close()
        finally:
            if not self._cell[0] and (
                    self._own or self.store._closer == threading.get_ident()):
                self.store.close()


class Locker(OfStore):
    """A mutex to be acquired and released, again and again.

    `on_lost(error)` is called on a thread of the library's when it is lost
    while it is held; the work has Times.budget to end then.
    """

    _close = staticmethod(lib.py_locker_close)

    def __init__(self, mutex: str, *, store: StoreLike = None,
                 id: Optional[str] = None, times: Times = Times(),
                 on_lost: Optional[Callable[[Error], None]] = None) -> None:
        super().__init__(store)
        self.mutex = mutex
        self.on_lost = on_lost
        with self._opening():
            options = ffi.new("simba_locker_options *")
            lib.py_init(ffi.NULL, options, ffi.NULL, ffi.NULL, ffi.NULL)
            options.mutex, options.id = keep = _text(mutex), _text(id)
            times.fill(options.times)
            if on_lost is not None:
                options.on_lost = lib.py_lost
            options.user = self._user
            self._open(lib.simba_locker_open, "simba_locker", options)
            del keep

    def _renew_locks(self) -> None:
        super()._renew_locks()
        self._waiting = threading.RLock()

    def _acquire(self, timeout_ms: int) -> int:
        token = ffi.new("uint64_t *")
        with self._waiting:
            self._call(lib.simba_locker_acquire, timeout_ms, token)
        return int(token[0])

    def _hurry(self) -> None:
        lib.simba_locker_cancel(self._cell[0])

    def acquire(self, wait: Optional[Duration] = None) -> int:
        """Wait until it is ours, so long at most (0: try once); its token.

        Ctrl-C ends the wait.
        """
        return self._wait_for(ms(wait, -1))

    def _wait_for(self, timeout_ms: int) -> int:
        if (timeout_ms == 0 or
                threading.current_thread() is not threading.main_thread()):
            return self._acquire(timeout_ms)
        found = None
        try:
            with contextlib.suppress(Busy, TimedOut, Unreachable):
                return self._acquire(0)
            # Signals are seen between calls only: let another thread wait.
            found = in_thread(self._acquire, timeout_ms)
            return int(found.start().get())
        except Exception:
            raise
        except BaseException:  # of a signal handler: it is not ours after that
            if found is not None and not found.give_up():
                while not found.has_ended(0.05):
                    self.cancel()  # again, as it may not wait yet
            with contextlib.suppress(Error, ValueError):
                self.release()
            raise

    def release(self) -> None:
        """Let go. Raises Lost when it had been lost before."""
        self._call(lib.simba_locker_release)

    def cancel(self) -> None:
        """Make an acquire that waits on another thread raise Cancelled."""
        self._use(lib.simba_locker_cancel)

    def progress(self) -> None:
        """Say that the work is getting on (Times.progress)."""
        self._use(lib.simba_locker_progress)

    @property
    def is_owner(self) -> bool:
        """Is it ours at this very instant? Computed from the clock."""
        return bool(self._ask(lib.simba_locker_is_owner, False))

    @property
    def token(self) -> int:
        """The fencing token; 0 when it is not ours."""
        return int(self._ask(lib.simba_locker_token, 0))

    def __repr__(self) -> str:
        return f"<simba.Locker {self.mutex!r}>"


class in_thread:
    """A call on a thread of its own, from start() on; get() waits for what it
    returns."""

    def __init__(self, call: Callable[..., Any], *arguments: Any) -> None:
        self._end = threading.Event()
        self._result: Any = None
        self._raised: Optional[BaseException] = None
        self._then: list[Callable[[], object]] = []
        self._has_begun = self._is_given_up = False
        self._thread = threading.Thread(target=self._run_call,
                                        args=(call, arguments),
                                        name="simba-wait", daemon=True)

    def start(self) -> in_thread:
        self._thread.start()
        return self

    def give_up(self) -> bool:
        """Do not call it. False: that has begun already."""
        with _lock:
            self._is_given_up = True
            return not self._has_begun

    def _run_call(self, call: Callable[..., Any], arguments: Any) -> None:
        with _lock:
            if self._is_given_up:
                return
            self._has_begun = True
        try:
            self._result = call(*arguments)
        except BaseException as raised:
            self._raised = raised
        with _lock:
            self._end.set()
        for then in self._then:
            then()

    def then(self, then: Callable[[], object]) -> None:
        """Have it called at the end, or now."""
        with _lock:
            if not self._end.is_set():
                self._then.append(then)
                return
        then()

    def get(self) -> Any:
        while not self._end.wait(0.5):  # else a signal right before is not seen
            pass
        if self._raised is not None:
            raise self._raised
        return self._result

    def has_ended(self, seconds: float) -> bool:
        """Wait so long at most."""
        return self._end.wait(seconds)

    @property
    def raised(self) -> Optional[BaseException]:
        """What it raised, if it has ended."""
        return self._raised


class Service(OfStore):
    """The running contention of one contender.

        with simba.Service("leader", on_acquired=lead, on_released=stop):
            serve_for_ever()

    The callbacks get a State. One that raises is logged, and counts as
    returned: on_released must not return before the work has ended.
    """

    _close = staticmethod(lib.py_service_close)

    def __init__(self, mutex: str, *, store: StoreLike = None,
                 on_acquired: Optional[Callable[[State], None]] = None,
                 on_released: Optional[Callable[[State], None]] = None,
                 on_changed: Optional[Callable[[State], None]] = None,
                 id: Optional[str] = None, times: Times = Times(),
                 initial_delay: Duration = 0) -> None:
        super().__init__(store)
        self.mutex = mutex
        self.on_acquired = on_acquired
        self.on_released = on_released
        self.on_changed = on_changed
        with self._opening():
            options = ffi.new("simba_contender *")
            lib.py_init(ffi.NULL, ffi.NULL, options, ffi.NULL, ffi.NULL)
            options.mutex, options.id = keep = _text(mutex), _text(id)
            times.fill(options.times)
            options.initial_delay_ms = ms(initial_delay, 0)
            options.on_acquired = lib.py_acquired
            options.on_released = lib.py_released
            if on_changed is not None:
                options.on_changed = lib.py_changed
            options.user = self._user
            self._open(lib.simba_service_open, "simba_service", options)
            del keep

    def start(self) -> None:
        """Contend. Returns at once."""
        self._call(lib.simba_service_start)

    def stop(self) -> None:
        """Give the mutex back and wait for it; it can be started again."""
        self._call(lib.simba_service_stop)

    def progress(self) -> None:
        """Say that the work is getting on (Times.progress)."""
        self._use(lib.simba_service_progress)

    @property
    def is_owner(self) -> bool:
        """Is it ours at this very instant? Computed from the clock."""
        return bool(self._ask(lib.simba_service_is_owner, False))

    @property
    def token(self) -> int:
        """The fencing token; 0 when it is not ours."""
        return int(self._ask(lib.simba_service_token, 0))

    def __enter__(self) -> Service:
        self.start()
        return self

    def __repr__(self) -> str:
        return f"<simba.Service {self.mutex!r}>"


class Run:
    """One run of a scheduler's work; of use during the run only."""

    def __init__(self, c: Any) -> None:
        self._c = c
        self.token: int = c.token  #: fencing token of the tenure
        self.number: int = c.number  #: counted from 1
        self.skipped: int = c.skipped  #: beats that were skipped before it

    @property
    def is_stopped(self) -> bool:
        """Must it come to its end? True as soon as the mutex is not ours."""
        return bool(lib.simba_run_is_stopped(self._c))

    def progress(self) -> None:
        """Say that the work is getting on (Times.progress)."""
        lib.simba_run_progress(self._c)

    def fileno(self) -> int:
        """Becomes readable when the work must end."""
        return int(self._c.stop_fd)


@ffi.def_extern(error=-14)
def py_work(user: Any, run: Any, error: Any) -> int:
    scheduler: Any = _live.get(int(ffi.cast("intptr_t", user)))
    _thread.inside = (scheduler,)
    try:
        scheduler.work(Run(run))
        return 0
    except BaseException as raised:
        said = f"{type(raised).__name__}: {raised}".encode()[:200]
        error.code = -14
        ffi.memmove(error.message, said + b"\0", len(said) + 1)
        logger.debug("%s: the work raised", scheduler, exc_info=True)
        return -14


class Scheduler(OfStore):
    """Periodic work that runs only where the mutex is owned.

        with simba.Scheduler("cleanup", sweep, period=60):
            serve_for_ever()

    `work(run)` gets a Run; what it raises is logged, and the schedule is kept.
    With fixed_delay the period counts from the end of a run.
    """

    _close = staticmethod(lib.py_scheduler_close)

    def __init__(self, mutex: str, work: Callable[[Run], None], *,
                 period: Duration, store: StoreLike = None,
                 fixed_delay: bool = False, initial_delay: Duration = 0,
                 id: Optional[str] = None, times: Times = Times()) -> None:
        super().__init__(store)
        self.mutex = mutex
        self.work = work
        with self._opening():
            options = ffi.new("simba_scheduler_options *")
            lib.py_init(ffi.NULL, ffi.NULL, ffi.NULL, options, ffi.NULL)
            options.mutex, options.id = keep = _text(mutex), _text(id)
            times.fill(options.times)
            options.schedule = (lib.SIMBA_FIXED_DELAY if fixed_delay
                                else lib.SIMBA_FIXED_RATE)
            options.period_ms = ms(period, 0)
            options.initial_delay_ms = ms(initial_delay, 0)
            options.work = lib.py_work
            options.user = self._user
            self._open(lib.simba_scheduler_open, "simba_scheduler", options)
            del keep

    def start(self) -> None:
        """Contend, and work when leading. Returns at once."""
        self._call(lib.simba_scheduler_start)

    def stop(self) -> None:
        """Tell the work to end, wait for it, and give the mutex back."""
        self._call(lib.simba_scheduler_stop)

    @property
    def is_owner(self) -> bool:
        """Do we lead at this very instant?"""
        return bool(self._ask(lib.simba_scheduler_is_owner, False))

    def __enter__(self) -> Scheduler:
        self.start()
        return self

    def __repr__(self) -> str:
        return f"<simba.Scheduler {self.mutex!r}>"


class Watcher(OfStore):
    """Calls on_changed(state) for each change of owner that is seen."""

    _close = staticmethod(lib.py_retrieval_close)

    def __init__(self, mutex: str, on_changed: Callable[[State], None], *,
                 store: StoreLike = None, poll: Duration = 1) -> None:
        super().__init__(store)
        self.on_changed = on_changed
        with self._opening():
            options = ffi.new("simba_retriever *")
            lib.py_init(ffi.NULL, ffi.NULL, ffi.NULL, ffi.NULL, options)
            options.mutex = keep = _text(mutex)
            options.poll_ms = ms(poll, 0)
            options.on_changed = lib.py_changed
            options.user = self._user
            self._open(lib.simba_retrieval_open, "simba_retrieval", options)
            del keep
            self._call(lib.simba_retrieval_start)
