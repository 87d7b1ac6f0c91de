#!/usr/bin/env python3
"""A management command, as frameworks have them, that must not run twice: it
waits for its turn, and ends its work when the mutex is lost."""

import argparse
import threading

import simba


class Command:
    help = "rebuilds the search index"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--wait", type=float, default=30)
        parser.add_argument("--batches", type=int, default=3)

    def handle(self, wait: float, batches: int) -> None:
        lost = threading.Event()

        with simba.lock("rebuild-index", wait=wait,
                        on_lost=lambda why: lost.set()) as lease:
            for batch in range(batches):
                if lost.is_set():
                    break
                print(f"batch {batch} with token {lease.token}")
        print("done")


def main() -> None:
    command = Command()
    parser = argparse.ArgumentParser(description=command.help)
    command.add_arguments(parser)
    try:
        command.handle(**vars(parser.parse_args()))
    except simba.TimedOut as error:
        parser.exit(75, f"{error}\n")


if __name__ == "__main__":
    main()
