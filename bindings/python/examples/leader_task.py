#!/usr/bin/env python3
"""A web service whose instances elect a leader for a background task, with a
lifespan as asynchronous frameworks have it."""

import asyncio
import contextlib
import sys

import simba


async def refresh(token: int) -> None:
    """Runs on the leader only, and is cancelled when it leads no more."""
    try:
        while True:
            print(f"refreshing, token {token}", flush=True)
            await asyncio.sleep(0.2)
    finally:
        print("leads no more", flush=True)


@contextlib.asynccontextmanager
async def lifespan():
    leader = asyncio.create_task(simba.lead("refresh", refresh))
    try:
        yield
    finally:
        leader.cancel()
        await asyncio.wait([leader])


async def serve(seconds: float) -> None:
    async with lifespan():
        await asyncio.sleep(seconds)  # requests are answered here


asyncio.run(serve(float(sys.argv[1]) if len(sys.argv) > 1 else 3600))
