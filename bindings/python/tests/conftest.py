"""SIMBA_TEST_URL names the store; else it is a SQLite file."""

import itertools
import os
import time

import pytest

_count = itertools.count()


@pytest.fixture
def url(tmp_path):
    return os.environ.get("SIMBA_TEST_URL") or f"sqlite:{tmp_path}/simba.db"


@pytest.fixture
def mutex():
    return f"python {os.getpid()}/{next(_count)}"


@pytest.fixture
def until():
    """until(condition): wait for it, ten seconds at most."""
    def wait(condition):
        end = time.monotonic() + 10
        while not condition():
            assert time.monotonic() < end
            time.sleep(0.005)
    return wait
