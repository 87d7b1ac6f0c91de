#!/usr/bin/env python3
"""simba serve among those who mean it ill: thousands of connections that say
nothing, or say it slowly; requests that are none; readers that do not read.

    hostile.py SIMBA SCRATCH [CONNECTIONS [REQUESTS]]

While each of them goes on, somebody else asks as usual and must be answered.
Prints TAP.
"""

import json
import os
import random
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time

simba, scratch = os.path.realpath(sys.argv[1]), sys.argv[2]
most = int(sys.argv[3]) if len(sys.argv) > 3 else 200
requests = int(sys.argv[4]) if len(sys.argv) > 4 else 150
seed = int(os.environ.get("SIMBA_SEED", random.randrange(1 << 32)))
dice = random.Random(seed)


class Server:
    def __init__(self):
        self.directory = tempfile.TemporaryDirectory(dir=scratch)
        self.store = f"sqlite:{self.directory.name}/simba.db"
        self.env = dict(os.environ, SIMBA_CONFIG="/dev/null")
        subprocess.run([simba, "--store", self.store, "init"], check=True,
                       stdout=subprocess.DEVNULL, env=self.env)
        self.process = subprocess.Popen(
            [simba, "serve", "--listen", "127.0.0.1:0", "--store", self.store],
            stdout=subprocess.PIPE, text=True, env=self.env)
        url = self.process.stdout.readline().strip()
        self.address = ("127.0.0.1", int(url.rsplit(":", 1)[1].rstrip("/")))

    def connect(self):
        return socket.create_connection(self.address, timeout=10)

    def ask(self, path="/api/mutexes"):
        """The status of a reply, and how long it took."""
        begin = time.monotonic()
        with self.connect() as s:
            s.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n"
                      "Connection: close\r\n\r\n".encode())
            line = s.makefile("rb").readline()
        return int(line.split()[1]), time.monotonic() - begin

    def is_well(self, seconds=5):
        try:
            status, took = self.ask()
        except (OSError, IndexError, ValueError) as error:
            print(f"# {error}")
            return False
        print(f"# answered {status} after {took:.3f} s")
        return status == 200 and took < seconds and self.process.poll() is None


def silent_connections_starve_nobody(server):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, most + 500), hard))
    silent = []
    is_well = True
    for i in range(most):
        s = socket.socket()
        s.setblocking(False)
        s.connect_ex(server.address)
        silent.append(s)
        if i % (most // 4) == most // 4 - 1:
            is_well = server.is_well() and is_well
    is_well = server.is_well() and is_well
    for s in silent:
        s.close()
    return is_well and server.is_well()


def slow_senders_are_cut_off(server):
    with server.connect() as s:
        begin = time.monotonic()
        s.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-A: ")
        try:
            while time.monotonic() - begin < 25:
                s.sendall(b"a")
                time.sleep(0.2)
                s.setblocking(False)
                try:
                    if s.recv(100) == b"":
                        break
                except BlockingIOError:
                    pass
                s.setblocking(True)
        except OSError:
            pass
        took = time.monotonic() - begin
    print(f"# cut off after {took:.1f} s")
    return 5 < took < 20 and server.is_well()


def who_does_not_read_is_no_burden(server):
    deaf = []
    for _ in range(50):
        s = server.connect()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        s.sendall(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        deaf.append(s)
    is_well = server.is_well()
    for s in deaf:
        s.close()
    return is_well


def wrong_requests_are_answered_or_cut(server):
    good = (b"GET /api/mutex?store=0&mutex=x HTTP/1.1\r\nHost: localhost\r\n"
            b"Accept: */*\r\nX-Simba-Key: abc\r\n\r\n",
            b"POST /api/break HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Length: 30\r\n\r\nmutex=x&token=1&reason=why&a=b")
    odd = (b"\0", b"\r\n", b"%", b"%00", b"%ff", b" ", b":", b"\xff" * 9,
           b"A" * 20000, b"HTTP/9.9", b"Content-Length: -1\r\n",
           b"Transfer-Encoding: chunked\r\n", b"Host: a\r\n", b"../" * 9,
           b"store=99999999999999999999", b"&" * 3000)
    for _ in range(0, requests, 150):
        texts = []
        for _ in range(150):
            text = bytearray(dice.choice(good))
            for _ in range(dice.randrange(1, 5)):
                at = dice.randrange(len(text))
                if dice.random() < 0.5:
                    text[at:at] = dice.choice(odd)
                else:
                    del text[at:at + dice.randrange(1, 20)]
            texts.append(bytes(text))
        if not all_end(server, texts):
            return False
    return server.is_well()


def all_end(server, texts):
    """Send each on a connection of its own: within the time that an idle one
    has, all were answered or cut off."""
    asked, deadline = [], time.monotonic() + 15
    for text in texts:
        s = server.connect()
        try:
            s.sendall(text)
        except OSError:
            pass
        asked.append((s, text))
    for s, text in asked:
        try:
            while True:
                s.settimeout(max(0.01, deadline - time.monotonic()))
                if not s.recv(65536):
                    break
        except TimeoutError:
            print(f"# no end after {text[:200]!r}")
            return False
        except OSError:
            pass
        s.close()
    if server.process.poll() is not None:
        print(f"# it died of one of {texts!r}")
    return server.process.poll() is None


def many_pages_are_served_and_more_refused(server):
    pages = []
    statuses = {}
    for _ in range(520 if most > 1000 else 100):
        s = server.connect()
        s.sendall(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        pages.append(s)
    for s in pages:
        status = s.recv(4096).split()[1]
        statuses[status] = statuses.get(status, 0) + 1
    print(f"# {statuses}")
    is_well = server.is_well()
    for s in pages:
        s.close()
    return is_well and statuses[b"200"] == min(500, len(pages))


def jobs_are_answered_whole(server):
    """What a store is asked for on another thread, by many at once."""
    wrong = []

    def hammer():
        for _ in range(requests):
            with server.connect() as s:
                s.sendall(b"GET /api/mutex?mutex=x HTTP/1.1\r\nHost: localhost"
                          b"\r\nConnection: close\r\n\r\n")
                reply = s.makefile("rb").read()
            if b" 200 OK" not in reply or not reply.endswith(b"}\n"):
                wrong.append(reply)

    threads = [threading.Thread(target=hammer) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        print(f"# {len(wrong)} wrong replies, such as {wrong[0][-200:]!r}")
    return not wrong and server.is_well()


def proxy_names_the_user(server):
    """By a socket that nobody else can open; not this server's."""
    path = f"{server.directory.name}/socket"
    process = subprocess.Popen(
        [simba, "serve", "--listen", f"unix:{path}", "--auth-header", "X-User",
         "--store", server.store], stdout=subprocess.PIPE, text=True,
        env=server.env)
    is_good = process.stdout.readline().strip() == f"unix:{path}"
    is_good = is_good and os.stat(path).st_mode & 0o777 == 0o660
    for header, wanted in (("X-User: ann", b'"user":"ann"'),
                           ("X-Other: ann", b" 401 "), ("X-User:", b" 401 "),
                           ("X-User: eve\r\nx-user: ann", b" 401 "),
                           ("X-User: ann\r\nHost: evil.example", b" 421 ")):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(path)
            s.sendall("GET /api/session HTTP/1.1\r\nHost: localhost\r\n"
                      f"{header}\r\nConnection: close\r\n\r\n".encode())
            is_good = is_good and wanted in s.makefile("rb").read()
    process.terminate()
    return is_good and process.wait(10) == 0 and not os.path.exists(path)


def main():
    tests = [many_pages_are_served_and_more_refused,
             wrong_requests_are_answered_or_cut, who_does_not_read_is_no_burden,
             silent_connections_starve_nobody, jobs_are_answered_whole,
             proxy_names_the_user]
    if most > 1000:
        tests.append(slow_senders_are_cut_off)
    server, failed = Server(), 0
    print(f"# SIMBA_SEED={seed}")
    for i, test in enumerate(tests):
        is_good = test(server)
        failed += not is_good
        print(f"{'ok' if is_good else 'not ok'} {i + 1} - {test.__name__}",
              flush=True)
    server.process.terminate()
    code = server.process.wait(10)
    print(f"# it ended with {code}\n1..{len(tests)}")
    return 1 if failed or code != 0 else 0


sys.exit(main())
