"""The package on any store: the same safety as the library's."""

import asyncio
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
        await asyncio.to_thread(until, lambda: not simba._handles._live)

    until(lambda: not simba._handles._live)
    asyncio.run(main())


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
