#!/usr/bin/env python3
"""A cron job on every host that runs on one of them.

    0 3 * * *  report  cron_job.py          # $SIMBA_STORE names the store

min_hold keeps the mutex for a while, so that a host whose clock is late does not
run it a second time.
"""

import sys

import simba


def report(token: int) -> None:
    print(f"reporting, token {token}")


try:
    with simba.lock("nightly-report", wait=0,
                    times=simba.Times(min_hold=0.5)) as lease:
        report(lease.token)
except simba.Busy:
    sys.exit(0)  # another host has it
