"""The package on any store: the same safety as the library's."""

import asyncio
import concurrent.futures
import contextlib
import linecache
import logging
import os
import select
import signal
import subprocess
import sys
import threading
import time

import pytest
import simba


def test_lock_holds_and_excludes(url, mutex):
    with simba.lock(mutex, store=url, wait=5) as lease:
        assert lease.is_owner and lease.token > 0
        with pytest.raises(simba.Busy):
            with simba.lock(mutex, store=url, wait=0):
                pass
        with pytest.raises(simba.TimedOut) as raised:
            with simba.lock(mutex, store=url, wait=0.05):
                pass
        assert isinstance(raised.value, TimeoutError)
        assert raised.value.name == "timed-out"
        first = lease.token
    assert not lease.is_owner and lease.token == 0
    with simba.lock(mutex, store=url, wait=5) as lease:
        assert lease.token > first


def test_lock_tells_of_a_loss(url, mutex):
    lost = []
    with pytest.raises(simba.Lost) as raised:
        with simba.lock(mutex, store=url, times=simba.Times(max_hold=0.05),
                        on_lost=lost.append) as lease:
            while lease.is_owner:
                time.sleep(0.005)
    assert raised.value.cause is simba.Cause.MAX_HOLD
    assert [error.cause for error in lost] == [simba.Cause.MAX_HOLD]


def test_lock_lets_the_bodys_exception_through(url, mutex):
    with pytest.raises(KeyError):
        with simba.lock(mutex, store=url):
            raise KeyError
    with simba.lock(mutex, store=url, wait=0):
        pass


def test_wrong_names_and_urls(url):
    with pytest.raises(ValueError):
        simba.Locker("", store=url)
    with pytest.raises(simba.Invalid):
        simba.Store("nonsense:x")


def test_a_name_does_not_end_where_c_ends_it(url, mutex):
    with pytest.raises(simba.Invalid) as raised:
        simba.Locker(f"{mutex}\0of another", store=url)
    assert raised.value.name == "invalid"
    with pytest.raises(simba.Invalid):
        simba.Locker(mutex, store=url, id="a\0b")
    with pytest.raises(simba.Invalid):
        simba.Store(f"{url}\0x")


def test_durations_mean_what_they_say(url, mutex):
    assert simba._handles.ms(2.3, 0) == 2300
    assert simba._handles.ms(0, 7) == 0 and simba._handles.ms(None, 7) == 7
    assert simba._handles.ms(0.000001, 0) == 1  # 0 would be another thing
    for wrong in ({"wait": -1}, {"times": simba.Times(transition=-1)}):
        with pytest.raises(simba.Invalid):
            with simba.lock(mutex, store=url, **wrong):
                pass


def test_what_a_newer_library_says_is_no_fault():
    from simba import _errors

    said = _errors.ffi.new("simba_error *")
    said.native = 99
    assert type(_errors.error_of(-99, said)) is simba.Error
    assert type(_errors.error_of(-14, said)) is simba.Internal
    lost = _errors.error_of(-9, said)
    assert isinstance(lost, simba.Lost)
    assert lost.cause is simba.Cause.UNKNOWN and lost.native == 99


def test_waiting_lets_other_threads_run(url, mutex, until):
    with simba.Store(url) as store, simba.lock(mutex, store=store) as held:
        got = []

        def wait():
            with simba.lock(mutex, store=store, wait=10) as lease:
                got.append(lease.token)

        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(0.05)
        assert not got and held.is_owner
        held.release()
        thread.join()
    assert got[0] > 0


def test_ctrl_c_ends_a_wait(url, mutex):
    with simba.lock(mutex, store=url):
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            with simba.lock(mutex, store=url):
                pass


def test_ctrl_c_ends_a_wait_that_it_does_not_interrupt(url, mutex):
    with simba.lock(mutex, store=url):
        # Another thread takes it: as if it came right before the wait.
        timer = threading.Timer(0.1, signal.raise_signal, (signal.SIGINT,))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            with simba.lock(mutex, store=url):
                pass


def test_ctrl_c_ends_a_wait_that_has_not_begun(url, mutex, monkeypatch):
    cancelled, waits = threading.Event(), threading.Event()
    acquire, cancel = simba.Locker._acquire, simba.Locker.cancel
    get = simba._handles.in_thread.get

    def late(self, timeout_ms):
        if timeout_ms != 0:
            waits.wait()
            os.kill(os.getpid(), signal.SIGINT)
            cancelled.wait()
        return acquire(self, timeout_ms)

    def note_get(self):
        waits.set()
        return get(self)

    def note(self):
        cancel(self)
        cancelled.set()

    monkeypatch.setattr(simba.Locker, "_acquire", late)
    monkeypatch.setattr(simba.Locker, "cancel", note)
    monkeypatch.setattr(simba._handles.in_thread, "get", note_get)
    with simba.lock(mutex, store=url, wait=0):
        waiting = simba.Locker(mutex, store=url)
        with pytest.raises(KeyboardInterrupt):
            waiting.acquire()
        waiting.close()


def test_a_handle_in_use_is_not_freed(url, mutex):
    locker, began, go_on = simba.Locker(mutex, store=url), *(
        threading.Event() for _ in range(2))

    def use(c):
        began.set()
        go_on.wait()

    using = threading.Thread(target=locker._use, args=(use,))
    closing = threading.Thread(target=locker.close)
    using.start()
    began.wait()
    closing.start()
    closing.join(0.05)
    assert closing.is_alive() and not locker.is_owner and locker.token == 0
    go_on.set()
    using.join()
    closing.join()


def test_threads_may_ask_while_it_is_closed(url, mutex):
    with simba.Store(url) as store:
        for _ in range(100):
            locker = simba.Locker(mutex, store=store)
            locker.acquire()
            ended = threading.Event()

            def ask(locker=locker, ended=ended):
                while not ended.is_set():
                    locker.is_owner, locker.token

            asking = [threading.Thread(target=ask) for _ in range(2)]
            for thread in asking:
                thread.start()
            locker.close()
            ended.set()
            for thread in asking:
                thread.join()


@contextlib.contextmanager
def on_a_signal(handler):
    before = signal.signal(signal.SIGUSR1, lambda *_: handler())
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_signal_handler_may_close(url, mutex, monkeypatch):
    call = simba.Locker._call

    def interrupted(self, *given):
        signal.raise_signal(signal.SIGUSR1)
        return call(self, *given)

    locker = simba.Locker(mutex, store=url)
    monkeypatch.setattr(simba.Locker, "_call", interrupted)
    with on_a_signal(locker.close), pytest.raises(ValueError):
        locker.acquire(wait=0)


@pytest.mark.parametrize("kind", ["locker", "store"])
def test_a_signal_handler_frees_nothing_in_a_call(url, mutex, kind):
    store = simba.Store(url)
    locker = simba.Locker(mutex, store=store)
    open_in_call = []

    def use(c):
        signal.raise_signal(signal.SIGUSR1)
        locker.is_owner  # another call, in which it is not closed either
        open_in_call.extend([bool(store._cell[0]), bool(locker._cell[0])])

    with on_a_signal({"locker": locker, "store": store}[kind].close):
        locker._use(use)
    assert open_in_call == [True, True]
    assert not locker._cell[0] and bool(store._cell[0]) == (kind == "locker")
    store.close()


@pytest.mark.parametrize("kind", ["locker", "store"])
def test_a_signal_handler_does_not_wait_for_who_waits_for_its_call(
        url, mutex, until, kind):
    store = simba.Store(url)
    locker = simba.Locker(mutex, store=store)
    close = {"locker": locker, "store": store}[kind].close
    closing = threading.Thread(target=close, daemon=True)

    def use(c):
        closing.start()
        until(lambda: locker._is_closed)
        signal.raise_signal(signal.SIGUSR1)

    with on_a_signal(close):
        locker._use(use)
    closing.join(10)
    assert not closing.is_alive() and not locker._cell[0]
    store.close()


def test_a_signal_handler_may_close_a_store_that_opens(url, mutex):
    store = simba.Store(url)

    class Interrupted(simba.Locker):
        def _open(self, function, *given):
            def after_a_signal(c, *given):
                signal.raise_signal(signal.SIGUSR1)
                assert store._cell[0]
                return function(c, *given)

            super()._open(after_a_signal, *given)

    with on_a_signal(store.close):
        locker = Interrupted(mutex, store=store)
    assert not locker._cell[0] and not store._cell[0]


@pytest.mark.parametrize("is_raising", [False, True])
def test_a_signal_may_come_before_any_line(url, mutex, is_raising):
    """A handler closes, or raises, before the n-th line, for each n. Python has
    none run where a `with` ends, or a `try` begins: these are left out."""
    def interrupt(frame, event, _):
        nonlocal left
        file = frame.f_code.co_filename
        if not file.endswith("_handles.py"):
            return None
        line = linecache.getline(file, frame.f_lineno).strip()
        left -= event == "line" and not line.startswith(
            ("with ", "try:"))
        if left == 0:
            if is_raising:
                raise KeyboardInterrupt
            locker.close()
        return interrupt

    with simba.Store(url) as store:
        n = 0
        left = 0
        while left <= 0:
            n += 1
            left = n
            locker = simba.Locker(mutex, store=store)
            before = sys.gettrace()
            sys.settrace(interrupt)
            try:
                locker.acquire(wait=0)
                locker.is_owner
                locker.close()
            except (ValueError, KeyboardInterrupt):
                pass
            finally:
                sys.settrace(before)
            closing = threading.Thread(target=locker.close, daemon=True)
            closing.start()
            closing.join(10)
            assert not closing.is_alive() and not locker._cell[0]
            locker.close()
    assert n > 20


def test_ctrl_c_leaves_nothing_half_open(url, mutex, monkeypatch):
    opening = simba._handles.Handle._open

    def interrupted(self, function, *given):
        def then_a_signal(*arguments):
            function(*arguments)
            signal.raise_signal(signal.SIGINT)

        opening(self, then_a_signal, *given)

    before = set(simba._handles._live)
    with simba.Store(url) as store:
        monkeypatch.setattr(simba._handles.Handle, "_open", interrupted)
        for make in (lambda: simba.Store(url),
                     lambda: simba.Locker(mutex, store=store)):
            with pytest.raises(KeyboardInterrupt):
                make()
        monkeypatch.undo()
        assert set(simba._handles._live) - before == {store._number}


def test_what_cannot_start_is_not_left_open(url, mutex, monkeypatch):
    def fail(self, *_):
        raise simba.Internal("on purpose")

    before = set(simba._handles._live)
    monkeypatch.setattr(simba.Watcher, "_call", fail)
    with pytest.raises(simba.Internal):
        simba.watch(mutex, store=url)
    assert set(simba._handles._live) == before


def test_a_store_waits_for_who_closes_what_was_made_of_it(url, mutex):
    store = simba.Store(url)
    service, began, go_on = simba.Service(mutex, store=store), *(
        threading.Event() for _ in range(2))

    def use(c):
        began.set()
        go_on.wait()

    threads = [threading.Thread(target=service._use, args=(use,)),
               threading.Thread(target=service.close),
               threading.Thread(target=store.close)]
    threads[0].start()
    began.wait()
    for thread in threads[1:]:
        thread.start()
        thread.join(0.05)
        assert thread.is_alive()
    go_on.set()
    for thread in threads:
        thread.join()


def test_service_calls_back(url, mutex, until):
    told = []
    with simba.Service(mutex, store=url,
                       on_acquired=lambda s: told.append(s.after.token),
                       on_released=lambda s: told.append(s.cause)) as service:
        until(lambda: told)
        assert service.is_owner and service.token == told[0]
        service.stop()
        assert told[1] is simba.Cause.STOPPED
        service.start()
    assert len(told) in (2, 4)


def test_service_survives_callbacks_that_raise(url, mutex, until, caplog):
    def fail(state):
        raise RuntimeError("on purpose")

    with caplog.at_level(logging.ERROR, "simba"):
        with simba.Service(mutex, store=url, on_acquired=fail,
                           on_released=fail) as service:
            until(lambda: "on purpose" in caplog.text)
            assert service.is_owner
    with simba.lock(mutex, store=url, wait=0):
        pass


def test_service_is_not_closed_by_itself(url, mutex, until):
    raised = []

    def close(state):
        try:
            service.close()
        except simba.Misuse as misuse:
            raised.append(misuse)

    service = simba.Service(mutex, store=url, on_acquired=close)
    with service:
        until(lambda: raised)


def test_callbacks_in_a_poll_loop(url, mutex):
    threads = []
    with simba.Store(url, dispatch=True) as store:
        service = simba.Service(
            mutex, store=store,
            on_acquired=lambda s: threads.append(threading.current_thread()),
            on_released=lambda s: threads.append(threading.current_thread()))
        service.start()
        assert select.select([store], [], [], 10)[0]
        assert store.dispatch() == 1
        service.close()
    assert threads == [threading.main_thread()] * 2


def test_scheduler_works(url, mutex, until):
    runs = []

    def work(run):
        runs.append((run.number, run.token, run.is_stopped))
        if run.number == 1:
            raise RuntimeError("the schedule is kept")

    with simba.Scheduler(mutex, work, period=0.02, store=url, fixed_delay=True):
        until(lambda: len(runs) >= 3)
    assert [number for number, _, _ in runs[:3]] == [1, 2, 3]
    assert runs[0][1] > 0 and not runs[0][2]


def test_watch_tells_changes(url, mutex):
    with simba.watch(mutex, store=url, poll=0.05) as changes:
        with simba.lock(mutex, store=url) as lease:
            seen = iter(changes)
            state = next(seen)
            while state.after.token != lease.token:
                state = next(seen)
        state = next(seen)
        assert not state.after and state.before


def test_asyncio(url, mutex):
    async def main():
        began = asyncio.Event()
        ended = []

        async def work(token):
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(token)

        async with simba.lock(mutex, store=url, wait=5) as lease:
            assert lease.is_owner
            waiting = asyncio.ensure_future(enter(mutex))
            await asyncio.sleep(0.05)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            leading = asyncio.ensure_future(
                simba.lead(mutex, work, store=url))
        await asyncio.wait_for(began.wait(), 10)
        with pytest.raises(simba.Busy):
            async with simba.lock(mutex, store=url, wait=0):
                pass
        leading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leading
        assert len(ended) == 1
        watched = simba.watch(mutex, store=url, poll=0.05)
        async with simba.lock(mutex, store=url, wait=5) as lease:
            async for state in watched:
                if state.after.token == lease.token:
                    break

    async def enter(name):
        async with simba.lock(name, store=url):
            pass

    asyncio.run(main())


def test_asyncio_leaves_nothing_open(url, mutex, until):
    async def main():
        for _ in range(3):  # cancelled while it opens its store
            entering = asyncio.ensure_future(
                simba.lock(mutex, store=url).__aenter__())
            await asyncio.sleep(0)
            entering.cancel()
            with pytest.raises(asyncio.CancelledError):
                await entering
        await asyncio.to_thread(
            until, lambda: set(simba._handles._live) <= before)

    before = set(simba._handles._live)
    asyncio.run(main())


def test_asyncio_closes_what_a_second_cancel_finds(url, mutex):
    async def hold(began):
        async with simba.lock(mutex, store=url, wait=0):
            began.set()
            await asyncio.Event().wait()

    async def main():
        loop, began = asyncio.get_running_loop(), asyncio.Event()
        executor = concurrent.futures.ThreadPoolExecutor(1)
        loop.set_default_executor(executor)
        holding = asyncio.ensure_future(hold(began))
        await began.wait()
        executor.submit(time.sleep, 0.2)  # it has other things to do
        holding.cancel()
        for _ in range(10):
            await asyncio.sleep(0)
        # asyncio.run() cancels it again, and all that was begun for it.

    before = set(simba._handles._live)
    asyncio.run(main())
    assert set(simba._handles._live) == before
    with simba.lock(mutex, store=url, wait=0):
        pass


def test_asyncio_cancels_although_the_closing_raises(url, mutex, monkeypatch):
    releases = threading.Event()

    def lose(self):
        releases.set()
        time.sleep(0.1)
        raise simba.Lost("on purpose")

    async def hold():
        async with simba.lock(mutex, store=url, wait=5):
            pass

    async def main():
        holding = asyncio.ensure_future(hold())
        await asyncio.to_thread(releases.wait)
        holding.cancel()
        with pytest.raises(asyncio.CancelledError) as raised:
            await holding
        assert holding.cancelled()
        cause = raised.value
        while cause is not None and not isinstance(cause, simba.Lost):
            cause = cause.__cause__ or cause.__context__
        assert cause is not None

    monkeypatch.setattr(simba.Locker, "release", lose)
    asyncio.run(main())


def test_asyncio_cancels_a_wait_that_has_not_begun(url, mutex, monkeypatch):
    acquire = simba.Locker._acquire
    began, cancelled = threading.Event(), threading.Event()

    def late(self, timeout_ms):
        began.set()
        cancelled.wait()
        return acquire(self, timeout_ms)

    async def main():
        again = simba.lock(mutex, store=url)
        entering = asyncio.ensure_future(again.__aenter__())
        await asyncio.to_thread(began.wait)
        entering.cancel()
        asyncio.get_running_loop().call_later(0.2, cancelled.set)
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(entering, 10)
        return again

    with simba.lock(mutex, store=url, wait=0):
        monkeypatch.setattr(simba.Locker, "_acquire", late)
        again = asyncio.run(main())
        monkeypatch.undo()
    with again:  # it is not in use any more
        pass


def test_asyncio_lock_is_of_use_after_a_cancelled_opening(url, mutex, until):
    async def main():
        lock = simba.lock(mutex, store=url)
        entering = asyncio.ensure_future(lock.__aenter__())
        await asyncio.sleep(0)
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering
        await asyncio.to_thread(
            until, lambda: set(simba._handles._live) <= before)
        async with lock as lease:
            with pytest.raises(RuntimeError):
                await lock.__aenter__()
            assert lease.is_owner

    before = set(simba._handles._live)
    asyncio.run(main())


def test_lead_raises_what_its_work_raises(url, mutex):
    async def work(token):
        raise KeyError("on purpose")

    async def main():
        with pytest.raises(KeyError, match="on purpose"):
            await asyncio.wait_for(simba.lead(mutex, work, store=url), 10)
        async with simba.lock(mutex, store=url, wait=0):  # it was given back
            pass

    asyncio.run(main())


def test_lead_ends_its_work_before_another_leads(url, mutex):
    refused = []

    async def work(token):
        try:
            await asyncio.Event().wait()
        finally:
            end = time.monotonic() + 0.2
            while time.monotonic() < end:
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(0.01)
            try:
                with simba.lock(mutex, store=url, wait=0):
                    refused.append(False)
            except simba.Busy:
                refused.append(True)

    async def main():
        leading = asyncio.ensure_future(simba.lead(mutex, work, store=url))
        while not await asyncio.to_thread(is_led):
            pass
        leading.cancel()
        await asyncio.sleep(0.1)
        # The end of asyncio.run() cancels all anew.

    def is_led():
        try:
            with simba.lock(mutex, store=url, wait=0):
                return False
        except simba.Busy:
            return True

    asyncio.run(main())
    assert refused == [True]


def test_a_forked_child_leaves_a_with_by_what_it_raised(url, mutex):
    child = 0
    with simba.lock(mutex, store=url) as lease:
        try:
            with simba.lock(mutex + " inner", store=url):
                child = os.fork()
                if child == 0:
                    raise KeyError
        except BaseException as raised:
            os._exit(0 if type(raised) is KeyError else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert lease.is_owner


def test_a_forked_child_owns_nothing(url, mutex):
    with simba.lock(mutex, store=url) as lease:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                lease.release()
            except simba.Forked:
                code = 3 if lease.is_owner else 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert lease.is_owner


LEAVE = """
import sys, threading, time, simba
store = simba.Store(sys.argv[1])
service = simba.Service(sys.argv[2], store=store,
                        on_released=lambda state: print(state.cause.name))
service.start()
while not service.is_owner:
    time.sleep(0.01)
locker = simba.Locker(sys.argv[2], store=store)
threading.Thread(target=locker.acquire, daemon=True).start()
"""


def test_exit_releases_what_is_owned(url, mutex):
    ended = subprocess.run([sys.executable, "-c", LEAVE, url, mutex],
                           capture_output=True, text=True, timeout=30)
    assert (ended.returncode, ended.stdout) == (0, "STOPPED\n"), ended.stderr
    with simba.lock(mutex, store=url, wait=0):
        pass


@pytest.mark.parametrize("name, said", [
    ("cron_job.py", "reporting, token "),
    ("management_command.py", "done"),
])
def test_examples(url, name, said):
    path = os.path.join(os.path.dirname(__file__), "..", "examples", name)
    ended = subprocess.run([sys.executable, path], text=True,
                           capture_output=True, timeout=30,
                           env={**os.environ, "SIMBA_STORE": url})
    assert ended.returncode == 0, ended.stderr
    assert said in ended.stdout


def test_the_leader_of_the_example_ends_its_task(url):
    path = os.path.join(os.path.dirname(__file__), "..", "examples",
                        "leader_task.py")
    with subprocess.Popen([sys.executable, path], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          env={**os.environ, "SIMBA_STORE": url}) as running:
        assert running.stdout.readline().startswith("refreshing, token ")
        running.send_signal(signal.SIGINT)
        assert "leads no more" in running.stdout.read()
