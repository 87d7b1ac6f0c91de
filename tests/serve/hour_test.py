#!/usr/bin/env python3
"""A page of simba serve that is left open: neither it nor the server grows.

    hour_test.py SIMBA SCRATCH [SECONDS]

Owners come and go meanwhile, of mutexes that stay and of mutexes that are new.
Counting begins when the mutex that is open has as many tenures as are kept, and
is done after the garbage was collected. Prints TAP; 77 where there is no
Chromium.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from webdriver import Browser, within

simba, scratch = os.path.realpath(sys.argv[1]), sys.argv[2]
seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 60
if shutil.which("chromedriver") is None or shutil.which("chromium") is None:
    sys.exit(77)

KEPT = 200 # tenures of a mutex
ROWS = 50  # more than can be seen at once

directory = tempfile.mkdtemp(dir=scratch)
# A sanitizer keeps what was freed for a while, which is no growth.
env = dict(os.environ, SIMBA_CONFIG="/dev/null",
           SIMBA_STORE=f"sqlite:{directory}/simba.db",
           ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") +
           ":quarantine_size_mb=1:thread_local_quarantine_size_kb=64")
started = []


def start(*words):
    process = subprocess.Popen(words, env=env, start_new_session=True,
                               stdout=subprocess.PIPE, text=True)
    started.append(process)
    return process


def end_all():
    for process in started:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
    # Those who keep a lock end by themselves, soon after.
    within(30, lambda: shutil.rmtree(directory, ignore_errors=True) or
           not os.path.exists(directory))


def resident(process):
    with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file
                    if line.startswith("VmRSS"))


def look_once(browser, server):
    browser.cdp("HeapProfiler.collectGarbage")
    found = browser.metrics()
    return {"heap": found["JSHeapUsedSize"] / 1024, "nodes": found["Nodes"],
            "listeners": found["JSEventListeners"],
            "rss": resident(server)}


def look(browser, server):
    """The least of a few: what was replaced a moment ago is still counted."""
    found = [look_once(browser, server) for _ in range(5)]
    return {key: min(one[key] for one in found) for key in found[0]}


def main():
    subprocess.run([simba, "init"], env=env, check=True,
                   stdout=subprocess.DEVNULL)
    server = start(simba, "-q", "serve", "--listen", "127.0.0.1:0")
    url = server.stdout.readline().strip()
    for name, pause in (("busy", 0), ("busy", 0), ("calm-$((n % 40))", 0.3),
                        ("new-$n", 1)):
        start("sh", "-c", 'n=0; while :; do n=$((n + 1)); '
              f'{simba} -q lock "{name}" --id "$n:$$@host$((n % 9)).example" '
              f'-- sleep 0.05; sleep {pause}; done')
    browser = Browser()
    try:
        browser.cdp("Performance.enable")
        browser.cdp("HeapProfiler.enable")
        browser.go(url + "#/0/busy")
        is_full = within(240, lambda: browser.run(
            "return [...document.querySelectorAll('#detail h3')].some((h) => "
            "h.textContent === arguments[0])", f"The last {KEPT} tenures"))
        assert is_full
        # Of mutexes that come and go the page learns by lists, which are seldom:
        # until there are more than can be seen, it draws more rows each time.
        is_full = within(240, lambda: browser.run(
            "return [...document.querySelectorAll('#n-owned, #n-free')].reduce("
            "(sum, dd) => sum + Number(dd.textContent.replace(/\\D/g, '')), 0)"
            ) > ROWS)
        assert is_full
        samples, begin = [], time.monotonic()
        step = max(1, min(60, seconds / 20))
        while time.monotonic() - begin < seconds:
            time.sleep(step)
            samples.append(look(browser, server))
            print(f"# {time.monotonic() - begin:6.0f} s", ", ".join(
                f"{key} {value:.0f}" for key, value in samples[-1].items()),
                flush=True)
        assert browser.text("#link") == "live"
        # What it has just begun to show fills up at first.
        samples = samples[len(samples) // 4:]
        part = max(2, len(samples) // 3)
        grown = {}
        for key in samples[0]:
            first = min(s[key] for s in samples[:part])
            last = min(s[key] for s in samples[-part:])
            grown[key] = last / first
        print("# grown to", ", ".join(f"{key} {100 * by:.1f} %"
                                      for key, by in grown.items()))
        is_good = all(by < 1.25 for by in grown.values())
    finally:
        browser.close()
        end_all()
    print(f"{'ok' if is_good else 'not ok'} 1 - page_left_open_does_not_grow")
    print("1..1")
    return 0 if is_good else 1


# So that what was started is ended.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
sys.exit(main())
