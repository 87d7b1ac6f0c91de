"""Distributed mutexes on the store you have.

    with simba.lock("nightly", store="redis://cache", wait=30) as lease:
        write(lease.token)

`async with` works likewise. Service has callbacks for when ownership comes and
goes, Scheduler has work that runs on the one host that leads, watch() tells who
owns a mutex. Durations are seconds, or a timedelta.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
from typing import Any, AsyncIterator, Awaitable, Callable, Iterator, Optional

from ._errors import (Busy, Cancelled, Cause, Denied, Error, Forked, Internal,
                      Invalid, Lost, Misconfigured, Misuse, NotInitialised,
                      TimedOut, UnknownOutcome, Unreachable)
from ._handles import (Duration, Locker, Owner, Run, Scheduler, Service, State,
                       Store, StoreLike, Times, Watcher, in_thread, logger, ms)

__all__ = [
    "Busy", "Cancelled", "Cause", "Denied", "Error", "Forked", "Internal",
    "Invalid", "Lost", "Misconfigured", "Misuse", "NotInitialised", "TimedOut",
    "UnknownOutcome", "Unreachable", "Locker", "Owner", "Run", "Scheduler",
    "Service", "State", "Store", "Times", "lead", "lock", "watch",
]


class lock:
    """Hold a mutex for as long as a `with` lasts; gives a Locker.

    `wait` is how long to wait for it: None for ever, 0 tries once. Raises Busy,
    TimedOut, Unreachable and so on when it is not acquired, and Lost at the end
    when it was lost meanwhile; ask lease.is_owner, or give on_lost, to know
    earlier.
    """

    def __init__(self, mutex: str, *, store: StoreLike = None,
                 wait: Optional[Duration] = None, id: Optional[str] = None,
                 times: Times = Times(),
                 on_lost: Optional[Callable[[Error], None]] = None) -> None:
        self._make = lambda: Locker(mutex, store=store, id=id, times=times,
                                    on_lost=on_lost)
        self._wait = ms(wait, -1)
        self._is_used = False
        self._lease: Optional[Locker] = None

    def _claim(self) -> None:
        if self._is_used:
            raise RuntimeError("this lock is in use already")
        self._is_used = True

    def _let_go(self) -> Optional[Locker]:
        lease, self._lease = self._lease, None
        self._is_used = False
        return lease

    def _end(self, is_failing: bool) -> None:
        lease = self._let_go()
        assert lease is not None
        try:
            lease.release()
        except UnknownOutcome as unknown:
            logger.warning("%s", unknown)  # the lease lapses by itself
        except (Lost, Forked):
            if not is_failing:
                raise
        finally:
            lease.close()

    def __enter__(self) -> Locker:
        self._claim()
        try:
            self._lease = self._make()
            self._lease._wait_for(self._wait)
        except BaseException:
            lease = self._let_go()
            if lease is not None:
                lease.close()
            raise
        return self._lease

    def __exit__(self, kind: Any, *rest: object) -> None:
        self._end(kind is not None)

    async def __aenter__(self) -> Locker:
        self._claim()
        try:
            self._lease = await _made(self._make)
            await _woken(in_thread(self._lease._acquire,
                                   self._wait).start())
        except BaseException:
            lease = self._let_go()
            if lease is not None:  # closing it ends the wait
                await _done(lease.close)
            raise
        return self._lease

    async def __aexit__(self, kind: Any, *rest: object) -> None:
        await _done(self._end, kind is not None)


async def _made(make: Callable[[], Any]) -> Any:
    """A handle, made on another thread as that may wait for the store; it is
    closed if nobody waits for it any more, also when the loop has ended."""
    making = in_thread(make).start()
    try:
        return await _woken(making)
    except BaseException:
        making.then(lambda: making.raised or making.get().close())
        raise


async def _done(call: Callable[..., Any], *arguments: Any) -> None:
    """Call it on a thread of its own and wait for its end, however often we are
    cancelled meanwhile: what is being closed is closed after that. (What the
    loop's executor has not begun, the end of the loop cancels.)"""
    ending = in_thread(call, *arguments).start()
    end = _end_of(ending)
    cancelled = None
    while not end.is_set():
        try:
            await end.wait()
        except asyncio.CancelledError as again:
            cancelled = again
    if cancelled is not None:
        raise cancelled from ending.raised
    ending.get()


async def _woken(found: in_thread) -> Any:
    await _end_of(found).wait()
    return found.get()


def _end_of(found: in_thread) -> asyncio.Event:
    """Set when it has ended."""
    loop = asyncio.get_running_loop()
    end = asyncio.Event()

    def wake() -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(end.set)

    found.then(wake)
    return end


class watch:
    """The changes of a mutex's owner, as they are seen, as State.

        for state in simba.watch("nightly"):
            print(state.after.id or "free")

    `async for` works likewise. Leave the loop, or close(), to end it.
    """

    def __init__(self, mutex: str, *, store: StoreLike = None,
                 poll: Duration = 1) -> None:
        self._seen: queue.SimpleQueue[Optional[State]] = queue.SimpleQueue()
        self._tell: Callable[[], object] = lambda: None
        self._watcher = Watcher(mutex, self._changed, store=store, poll=poll)

    def _changed(self, state: State) -> None:
        self._seen.put(state)
        self._tell()

    def close(self) -> None:
        """End it; who waits for the next change gets none."""
        self._watcher.close()
        self._seen.put(None)
        self._tell()

    def __enter__(self) -> watch:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[State]:
        try:
            while (state := self._seen.get()) is not None:
                yield state
        finally:
            self._watcher.close()

    async def __aiter__(self) -> AsyncIterator[State]:
        loop = asyncio.get_running_loop()
        news = asyncio.Event()
        self._tell = lambda: loop.call_soon_threadsafe(news.set)
        try:
            while True:
                try:
                    state = self._seen.get_nowait()
                except queue.Empty:
                    await news.wait()
                    news.clear()
                    continue
                if state is None:
                    return
                yield state
        finally:
            self._tell = lambda: None
            await _done(self._watcher.close)


async def lead(mutex: str, work: Callable[[int], Awaitable[None]], *,
               store: StoreLike = None, id: Optional[str] = None,
               times: Times = Times()) -> None:
    """Run the coroutine `work(token)` whenever, and only while, we lead.

    It is cancelled when leadership ends, and only then may another lead: it has
    Times.budget for it. Ends when this task is cancelled, or when the work
    raises: the mutex is given back, and the exception is raised here. Work that
    returns by itself leaves us leading.
    """
    loop = asyncio.get_running_loop()
    task: Optional[asyncio.Task[None]] = None
    failed: asyncio.Future[None] = loop.create_future()

    def ended(work: asyncio.Future[None]) -> None:
        raised = None if work.cancelled() else work.exception()
        if raised is not None and not failed.done():
            failed.set_exception(raised)
        elif raised is not None:  # nobody waits for it any more
            logger.error("%s: the leader's work raised", mutex,
                         exc_info=raised)

    async def begin(token: int) -> None:
        nonlocal task
        task = asyncio.ensure_future(work(token))
        task.add_done_callback(ended)

    async def end() -> None:
        if task is not None:
            task.cancel()
        while task is not None and not task.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([task])

    def on_acquired(state: State) -> None:
        asyncio.run_coroutine_threadsafe(begin(state.after.token),
                                         loop).result()

    def on_released(state: State) -> None:
        asyncio.run_coroutine_threadsafe(end(), loop).result()

    service = await _made(
        lambda: Service(mutex, store=store, id=id, times=times,
                        on_acquired=on_acquired, on_released=on_released))
    try:
        service.start()
        await failed
    finally:
        await _done(service.close)
