#!/usr/bin/env python3
"""The rules and the dashboard of examples/, with a real Prometheus.

    prometheus_test.py SIMBA SCRATCH EXAMPLES

promtool checks what simba serve and --metrics-file write, and the rules. Then
Prometheus scrapes both, and every query of the dashboard and of the rules is
asked: none may be wrong, and those about what is going on must have an answer.
Prints TAP; 77 where there is no Prometheus.
"""

import functools
import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

simba, scratch, examples = os.path.realpath(sys.argv[1]), *sys.argv[2:4]
if shutil.which("prometheus") is None or shutil.which("promtool") is None:
    sys.exit(77)

directory = tempfile.TemporaryDirectory(dir=scratch)
here = directory.name
env = dict(os.environ, SIMBA_CONFIG="/dev/null",
           SIMBA_STORE=f"sqlite:{here}/simba.db")
started = []


def start(*words, **more):
    process = subprocess.Popen(words, env=env, start_new_session=True, **more)
    started.append(process)
    return process


def promtool(*words, **more):
    reply = subprocess.run(["promtool", *words], capture_output=True, text=True,
                           check=False, **more)
    assert reply.returncode == 0, reply.stdout + reply.stderr


def get(url):
    with urllib.request.urlopen(url, timeout=20) as reply:
        return reply.read().decode()


def ask(url, query):
    try:
        reply = get(f"{url}api/v1/query?" + urllib.parse.urlencode(
            {"query": query}))
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{query}: {error.read().decode()}") from None
    return json.loads(reply)["data"]["result"]


def dashboard_queries():
    with open(f"{examples}/grafana/simba.json", encoding="utf-8") as file:
        panels = json.load(file)["panels"]
    for panel in panels:
        for target in panel["targets"]:
            query = target["expr"].replace("$__rate_interval", "30s")
            query = re.sub(r"\$(store|mutex)", ".*", query)
            yield panel["title"], query


# --- tests --------------------------------------------------------------------

def rules_are_right(_):
    promtool("check", "rules", f"{examples}/prometheus/rules.yml")
    promtool("test", "rules", "rules_test.yml", cwd=f"{examples}/prometheus")
    promtool("check", "config", "prometheus.yml",
             cwd=f"{examples}/prometheus")


def figures_are_right(urls):
    """promtool has opinions about names and help texts."""
    promtool("check", "metrics", input=get(urls["serve"] + "metrics"))
    with open(f"{here}/files/metrics", encoding="utf-8") as file:
        promtool("check", "metrics", input=file.read())


def every_query_is_understood_and_most_are_answered(urls):
    # Nothing was broken, lost or missed, and nothing is serious.
    quiet = {"Broken, and missed"}
    wanted = list(dashboard_queries())
    deadline = time.monotonic() + 60
    missing = wanted
    while missing and time.monotonic() < deadline:
        time.sleep(1)
        missing = [(title, query) for title, query in wanted
                   if not ask(urls["prometheus"], query)
                   and title not in quiet]
    assert not missing, missing
    print(f"# {len(wanted)} queries")


def rules_are_loaded_and_none_fires(urls):
    rules = json.loads(get(urls["prometheus"] + "api/v1/rules"))["data"]
    rules = rules["groups"][0]["rules"]
    wrong = [rule for rule in rules if rule["health"] == "err" or
             rule["state"] == "firing"]
    assert len(rules) >= 8 and not wrong, wrong


# --- the scene ----------------------------------------------------------------

def begin():
    urls = {}
    os.mkdir(f"{here}/files")
    subprocess.run([simba, "init"], env=env, check=True,
                   stdout=subprocess.DEVNULL)
    serve = start(simba, "serve", "--listen", "127.0.0.1:0",
                  stdout=subprocess.PIPE, text=True)
    urls["serve"] = serve.stdout.readline().strip()
    # What node_exporter would do with the file.
    files = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(
            http.server.SimpleHTTPRequestHandler, directory=f"{here}/files"))
    http.server.SimpleHTTPRequestHandler.log_message = lambda *_: None
    threading.Thread(target=files.serve_forever, daemon=True).start()
    for i in range(3):
        start("sh", "-c", f"while :; do '{simba}' -q lock busy --id {i}@host{i} "
              "-- sleep 0.1; done")
    start(simba, "-q", "every", "1s", "job", "--ttl", "2s", "--metrics-file",
          f"{here}/files/metrics", "--", "true")
    with open(f"{examples}/prometheus/prometheus.yml", encoding="utf-8") as file:
        config = file.read()
    config = config.replace("15s", "1s").replace(
        "127.0.0.1:7460", urls["serve"][7:-1]).replace(
        "rules.yml", os.path.realpath(f"{examples}/prometheus/rules.yml"))
    config += ("  - job_name: files\n    static_configs:\n      - targets: "
               f'["127.0.0.1:{files.server_port}"]\n')
    with open(f"{here}/prometheus.yml", "w", encoding="utf-8") as file:
        file.write(config)
    port = free_port()
    urls["prometheus"] = f"http://127.0.0.1:{port}/"
    start("prometheus", f"--config.file={here}/prometheus.yml",
          f"--storage.tsdb.path={here}/data", "--log.level=error",
          f"--web.listen-address=127.0.0.1:{port}")
    deadline = time.monotonic() + 60
    while True:
        try:
            get(urls["prometheus"] + "-/ready")
            if os.path.exists(f"{here}/files/metrics"):
                return urls
        except OSError:
            assert time.monotonic() < deadline, "Prometheus does not start"
        time.sleep(0.1)


def free_port():
    import socket
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def main():
    tests = [rules_are_right, figures_are_right,
             every_query_is_understood_and_most_are_answered,
             rules_are_loaded_and_none_fires]
    failed = 0
    try:
        urls = begin()
        for i, test in enumerate(tests):
            try:
                test(urls)
                print(f"ok {i + 1} - {test.__name__}", flush=True)
            except AssertionError as error:
                failed += 1
                print(f"# {error}\nnot ok {i + 1} - {test.__name__}", flush=True)
        print(f"1..{len(tests)}")
    finally:
        for process in reversed(started):
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
    return 1 if failed else 0


# So that what was started is ended.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
sys.exit(main())
