#!/usr/bin/env python3
"""The page of simba serve in a real Chromium.

    browser_test.py SIMBA SCRATCH [PICTURES]

Two contend, one is killed; sorting, searching, keys, breaking, losing the
server and finding it again; names that would be scripts; 10,000 mutexes. With
PICTURES, a directory, there are screenshots for the documents instead. Prints TAP;
77 where there is no Chromium.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

from webdriver import Browser, within

simba, scratch = os.path.realpath(sys.argv[1]), sys.argv[2]
pictures = sys.argv[3] if len(sys.argv) > 3 else None
if shutil.which("chromedriver") is None or shutil.which("chromium") is None:
    sys.exit(77)

directory = tempfile.TemporaryDirectory(dir=scratch,
                                        ignore_cleanup_errors=True)
store = f"sqlite:{directory.name}/simba.db"
env = dict(os.environ, SIMBA_CONFIG="/dev/null", SIMBA_STORE=store)
started = []


def run(*words):
    return subprocess.run([simba, *words], env=env, text=True,
                          capture_output=True, check=False)


def start(*words):
    """In a group of its own, so that it can be killed with all it has."""
    process = subprocess.Popen([simba, "-q", *words], env=env,
                               start_new_session=True,
                               stdout=subprocess.PIPE, text=True)
    started.append(process)
    return process


def end(process, how=signal.SIGTERM):
    try:
        os.killpg(process.pid, how)
    except ProcessLookupError:
        pass
    process.wait()


def lock(name, owner):
    return start("lock", name, "--id", owner, "--", "sleep", "600")


def serve(port=0):
    users = f"{directory.name}/users"
    made = subprocess.run(["openssl", "passwd", "-6", "secret"], check=True,
                          capture_output=True, text=True)
    with open(users, "w", opener=lambda p, f: os.open(p, f, 0o600)) as file:
        file.write(f"ann:{made.stdout}")
    process = start("serve", "--listen", f"127.0.0.1:{port}", "--auth-file",
                    users, "--allow-break")
    url = process.stdout.readline().strip()
    return process, url.replace("http://", "http://ann:secret@")


def names(browser):
    """The mutexes that are on the screen, in their order."""
    return browser.run("return [...document.querySelectorAll('tr.row')]"
                       ".map((row) => row.querySelector('a').textContent)")


def row(browser, name):
    return browser.run(
        "return [...document.querySelectorAll('tr.row')].find((row) => "
        "row.querySelector('a').textContent === arguments[0])?.innerText ?? ''",
        name)


# --- tests --------------------------------------------------------------------

def next_owner_appears_when_the_first_is_killed(b):
    one = lock("nightly", "7:100@web1.example-0123456789ab")
    assert within(20, lambda: "web1.example" in row(b, "nightly"))
    two = lock("nightly", "7:200@web2.example-0123456789ab")
    assert within(20, lambda: row(b, "nightly").split()[-1] == "1")
    end(one, signal.SIGKILL)
    assert within(40, lambda: "web2.example" in row(b, "nightly"))
    run("lock", "quick", "--", "sleep", "1")
    return two


def change_is_seen_within_half_a_second(b):
    b.run("""window.seen = {};
        new MutationObserver(() => {
          for (const row of document.querySelectorAll('tr.row')) {
            const id = row.cells[1].title;
            window.seen[id] ??= Date.now();
          }
        }).observe(document.getElementById('rows'),
          { subtree: true, childList: true, characterData: true,
            attributes: true });""")
    late = []
    for i in range(8):
        owner = f"1:{i}@host{i}-0123456789ab"
        reply = run("--json", "lock", "quick", "--id", owner, "--", "sleep", "0.3")
        told = json.loads(reply.stderr.splitlines()[0])
        assert within(5, lambda: b.run("return window.seen[arguments[0]]", owner))
        late.append(b.run("return window.seen[arguments[0]]", owner)
                    - told["unix_ms"])
    print(f"# seen after {sorted(round(ms) for ms in late)} ms")
    assert sorted(late)[len(late) // 2] < 500


def rows_are_sorted_and_searched(b):
    held = [lock(name, f"{i}:{i}@host{9 - i}-0123456789ab")
            for i, name in enumerate(["alpha", "beta", "gamma"])]
    wanted = ["alpha", "beta", "gamma"]
    some = lambda: [name for name in names(b) if name in wanted]
    assert within(20, lambda: some() == wanted)
    b.click("[data-sort=host]")
    assert within(5, lambda: some() == wanted[::-1])
    b.click("[data-sort=name]")
    b.click("[data-sort=name]")
    assert within(5, lambda: some() == wanted[::-1])
    b.click("[data-sort=name]")
    b.type("#search", "host8")
    assert within(5, lambda: names(b) == ["beta"])
    b.keys("\ue00c")
    assert within(5, lambda: some() == wanted)
    b.click("[data-filter=waited]")
    assert within(5, lambda: some() == [])
    b.click("[data-filter=all]")
    assert within(5, lambda: some() == wanted)
    return held


def one_is_opened_and_closed_by_keys(b):
    b.run("document.activeElement.blur()")
    b.keys("\ue015", "\ue007")
    assert within(5, lambda: b.text("#detail h2") == "alpha")
    b.keys("\ue00c")
    assert within(5, lambda: b.text("#detail h2") == "")
    assert b.run("return document.activeElement.textContent") == "alpha"
    b.keys("j", "\ue007")
    assert within(5, lambda: b.text("#detail h2") == "beta")
    assert within(5, lambda: "1:1@host8" in b.text("#detail .facts"))
    b.keys("\ue00c", "/", "g")
    assert within(5, lambda: names(b) == ["nightly", "gamma"] or
                  "gamma" in names(b))
    b.keys("\ue00c", "\ue00c")


def focus_stays_where_it_was(b):
    """Whatever appears, and is drawn anew, meanwhile."""
    focused = lambda: b.run("return document.activeElement.textContent")
    below = lock("zebra", "6:1@savanna")
    assert within(20, lambda: "zebra" in names(b))
    b.run("[...document.querySelectorAll('tr.row a')].find((a) => "
          "a.textContent === 'zebra').focus()")
    above = lock("aardvark", "5:4321@burrow-0123456789ab")
    assert within(20, lambda: "aardvark" in names(b))
    assert focused() == "zebra", focused()
    b.type("#search", "pid 4321")
    assert within(5, lambda: names(b) == ["aardvark"])
    b.keys("\ue00c")
    b.run("location.hash = '#/0/aardvark'")
    assert within(10, lambda: "4321" in b.text("#detail .facts"))
    b.run("document.querySelector('#detail .facts').id = 'earlier';"
          "document.querySelector('#detail [aria-label=Close]').focus()")
    assert within(20, lambda: b.run(
        "return document.getElementById('earlier') === null"))
    assert focused() == "×", focused()
    b.run("document.querySelector('#stores button').focus(); drawStores()")
    assert b.run("return document.activeElement.className") == "chip"
    b.click("#stores button")
    b.run("document.querySelector('#doctor button').focus(); drawStores()")
    assert focused() == "Close", focused()
    b.keys("\ue00c", "\ue00c")
    end(above)
    end(below)


def tenure_is_broken_with_a_reason(b):
    b.go(b.url + "#/0/beta")
    assert within(10, lambda: "Break this tenure" in b.text("#detail"))
    b.click("[data-act=break]")
    b.type("#break input[type=text]", "it <b>hangs</b>")
    b.click("#break button.danger")
    assert within(10, lambda: b.text("#detail .badge") == "broken")
    assert within(10, lambda: "broken by ann: it <b>hangs</b>"
                  in b.text("#detail .past"))
    assert json.loads(run("--json", "show", "beta").stdout)["broken"]
    b.keys("\ue00c")


def names_that_would_be_scripts_are_words(b):
    evil = "<img src=x onerror='window.evil=1'>"
    other = "</script><script>window.evil=1</script>"
    held = [lock(evil, "<b onmouseover=window.evil=1>@<i>x"), lock(other, "x")]
    assert within(20, lambda: evil in names(b) and other in names(b))
    b.run("location.hash = '#/0/' + encodeURIComponent(arguments[0])", evil)
    assert within(10, lambda: b.text("#detail h2") == evil)
    assert within(10, lambda: "<b onmouseover" in b.text("#detail .facts"))
    time.sleep(0.3)
    assert b.run("return window.evil ?? null") is None
    b.keys("\ue00c")
    for process in held:
        end(process)


def owner_says_who_it_is(b):
    """In words that would be scripts, on the row and in its own view."""
    evil = "<img src=x onerror='window.evil=1'>"
    told = start("lock", "told", "--tell", "host,pid,user,command", "--",
                 "sh", "-c", "sleep 600", evil)
    assert within(20, lambda: evil in row(b, "told"))
    b.run("location.hash = '#/0/told'")
    assert within(10, lambda: b.text("#detail h2") == "told")
    assert within(10, lambda: f"sh -c sleep 600 {evil}"
                  in b.text("#detail .facts"))
    b.type("#search", "sleep")
    assert within(5, lambda: names(b) == ["told"])
    b.keys("\ue00c", "\ue00c")
    assert b.run("return window.evil ?? null") is None
    end(told)


def all_owners_are_shown_with_their_slots(b):
    held = [start("lock", "crowd", "--slots", "3", "--id", f"9:{i}@crowd{i}",
                  "--", "sleep", "600") for i in range(3)]
    assert within(30, lambda: "3 own it" in row(b, "crowd"))
    b.run("location.hash = '#/0/crowd'")
    assert within(10, lambda: "3 own it, of 3 at a time" in b.text("#detail"))
    assert within(10, lambda: all(f"crowd{i}" in b.text("#detail .owners")
                                  for i in range(3)))
    assert within(10, lambda: len(set(b.run(
        "return [...document.querySelectorAll('.timeline rect')]"
        ".map((bar) => bar.getAttribute('y'))"))) == 3)
    end(held[1])
    assert within(20, lambda: "2 own it" in b.text("#detail"))
    assert within(20, lambda: "2 own it" in row(b, "crowd"))
    b.keys("\ue00c")
    for process in held:
        end(process)


def breaks_of_before_are_told(b):
    """By the store's book: this page's server did not see this one."""
    b.go(b.url + "#/0/earlier")
    assert within(10, lambda: "Broken once" in b.text("#detail"))
    assert "it <i>hung</i>" in b.text("#detail .breaks")
    assert "root@" in b.text("#detail .breaks") or "@" in b.text(
        "#detail .breaks")
    b.keys("\ue00c")


def store_tells_of_its_health(b):
    b.click("#stores .chip")
    assert within(5, lambda: "journal" in b.text("#doctor"))
    b.click("#doctor .button")


def everything_has_a_name_for_screen_readers(b):
    bare = b.run("""return [...document.querySelectorAll('button,a,input')]
      .filter((e) => !(e.textContent.trim() || e.ariaLabel || e.labels?.length))
      .map((e) => e.outerHTML)""")
    assert bare == [], bare
    assert b.run("return document.querySelector('table').ariaRowCount") != ""
    # Text is readable: contrast of words against what is behind them.
    dim = b.run("""
      const parse = (c) => c.match(/[\\d.]+/g).map(Number);
      const light = (c) => { const [r, g, b] = parse(c).slice(0, 3).map((v) => {
        v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; });
        return .2126 * r + .7152 * g + .0722 * b; };
      const ground = (e) => { for (; e; e = e.parentElement) {
        const c = getComputedStyle(e).backgroundColor;
        if (parse(c)[3] !== 0) return c; } return 'rgb(255,255,255)'; };
      return [...document.querySelectorAll('body *')].filter((e) =>
        [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) &&
        e.checkVisibility()).map((e) => { const a = light(getComputedStyle(e).color),
        b = light(ground(e)), r = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
        return [r, e.className, e.textContent.slice(0, 20)]; })
        .filter(([r]) => r < 4.5)""")
    assert dim == [], dim


def nothing_is_cut_off_on_a_phone(b):
    held = [lock("pocket", f"3:{i}@pocket{i}.example") for i in range(2)]
    phone = Browser(width=390, height=800, is_phone=True)
    try:
        phone.go(b.url)
        assert within(20, lambda: phone.run(
            "return document.querySelector('tr.row .count.some') !== null"))
        cut = phone.run("""return [...document.querySelectorAll('tr.row td')]
          .filter((e) => e.checkVisibility() && e.scrollHeight > e.clientHeight)
          .map((e) => [e.className, e.scrollHeight, e.clientHeight])""")
        assert cut == [], cut
        assert phone.run("return document.documentElement.scrollWidth <= "
                         "document.documentElement.clientWidth")
    finally:
        phone.close()
    for process in held:
        end(process)


def lost_server_is_told_and_found_again(b):
    port = int(b.url.rsplit(":", 1)[1].rstrip("/"))
    end(b.server)
    assert within(20, lambda: "connection is lost" in b.text("#stale"))
    assert b.text("#link") == "not live"
    b.server, _ = serve(port)
    assert within(30, lambda: b.text("#link") == "live")
    assert b.run("return document.getElementById('stale').hidden")
    assert "alpha" in names(b)


def page_never_complained(b):
    wrong = [line for line in b.messages() if "ERR_CONNECTION" not in line and
             "ERR_INCOMPLETE" not in line and "401" not in line]
    assert wrong == [], wrong


def ten_thousand_are_shown_without_stutter(b):
    """As many rows are fed to the page as the server would send."""
    assert within(20, lambda: b.text("#link") == "live")
    b.run("""source.close(); window.rowsOf = (n, at) => JSON.stringify({ now: Date.now(), rows:
        [...Array(n).keys()].map((i) => [0, `job-${String(i).padStart(5, '0')}`,
          `1:${i}@host${i % 50}-0123456789ab`, String(at + i), Date.now() - i,
          Date.now() + 1e4, Date.now() + 16000, 16000, 0, i % 7, 1, 0, 0]) });
      source.dispatchEvent(new MessageEvent('all', { data: rowsOf(10000, 1) }));""")
    assert within(10, lambda: b.text("#n-owned").startswith("10,0"))
    assert b.run("return document.querySelectorAll('tr.row').length") < 60
    # How much the page computes for a frame, by the clock of its thread: how
    # fast pictures are made without a screen, and with others on the machine,
    # says nothing.
    b.cdp("Performance.enable", timeDomain="threadTicks")
    b.ask("POST", "/timeouts", {"script": 120000})
    before = b.metrics()
    b.ask("POST", "/execute/async", {"args": [], "script": """
      const done = arguments[arguments.length - 1];
      const scroll = document.getElementById('scroll');
      let n = 0;
      requestAnimationFrame(function step() {
        if (n % 5 === 0) source.dispatchEvent(new MessageEvent('rows',
          { data: rowsOf(20, 20000 + n * 20) }));
        isOrderDirty = isOrderDirty || n % 25 === 0;
        scroll.scrollTop += 997;
        if (++n < 50) requestAnimationFrame(step); else done();
      });"""})
    after = b.metrics()
    took = {name: (after[name] - before[name]) * 1000 / 50 for name in
            ("ScriptDuration", "LayoutDuration", "RecalcStyleDuration")}
    print("# a frame takes", ", ".join(
        f"{ms:.1f} ms of {name[:-8]}" for name, ms in took.items()))
    assert sum(took.values()) < 16, took


def page_does_not_grow(b):
    """An hour's changes, one after the other, leave nothing behind."""
    size = lambda: b.run("return document.querySelectorAll('*').length")
    before = size()
    b.run("""for (let i = 0; i < 3600; i++) source.dispatchEvent(
      new MessageEvent('rows', { data: JSON.stringify({ now: Date.now(), rows:
        [[0, 'temporary-' + i, 'x@y', String(i), 1, 2, 3, 4, 0, 0, 1, 0, 0]],
        gone: [[0, 'temporary-' + (i - 1)]] }) }));""")
    assert b.run("return rows.size") <= 10050
    assert size() <= before + 50


def take_pictures(server, url):
    """A small fleet, as the documents show it."""
    hosts = [f"web{i}.example" for i in range(1, 5)]
    fleet = ["billing-invoices", "cdn-purge", "certificates-renew", "db-backup",
             "mail-digest", "orders-export", "search-reindex", "sessions-sweep"]
    env["PATH"] = f"{directory.name}/bin:{env['PATH']}"
    os.mkdir(f"{directory.name}/bin")
    for i, name in enumerate(fleet):
        program = f"{directory.name}/bin/{name}"
        with open(program, "w", opener=lambda p, f: os.open(p, f, 0o755)) as file:
            file.write("#!/bin/sh\nexec sleep 600\n")
        start("lock", name, "--id",
              f"0:{1200 + 37 * i}@{hosts[i % 4]}-0123456789ab", "--tell",
              "command", "--", name, *(["--all"] if i % 2 else []))
    for i in range(3):
        start("lock", "thumbnails", "--slots", "4", "--id",
              f"0:{510 + i}@worker{i}.example-0123456789ab", "--", "sleep", "600")
    for i in range(3):
        lock("search-reindex", f"0:{800 + i}@batch{i}.example-0123456789ab")
    for host, seconds in (("web1", 0.8), ("web2", 1.3), ("db1", 0.5)):
        started.append(subprocess.Popen(
            ["sh", "-c", f"while :; do {simba} -q lock nightly-report --id "
             f"0:{int(seconds * 1000)}@{host}.example-0123456789ab -- sleep "
             f"{seconds}; sleep 0.1; done"], env=env, start_new_session=True))
    time.sleep(40)
    for name, words, where in (
            ("dark", dict(width=1360, height=820, is_dark=True),
             "#/0/search-reindex"),
            ("phone", dict(width=390, height=800, is_phone=True), ""),
            ("slots", dict(width=1360, height=820), "#/0/thumbnails"),
            ("page", dict(width=1360, height=820), "#/0/nightly-report")):
        browser = Browser(**words)
        browser.go(url + where)
        time.sleep(6)
        browser.shoot(f"{pictures}/{name}.png")
        if name == "page":
            end(server)
            assert within(20, lambda: "is lost" in browser.text("#stale"))
            browser.go(url + "#")
            browser.shoot(f"{pictures}/lost.png")
        browser.close()


def break_one():
    """Before there is a server that could see it."""
    before = lock("earlier", "early")
    assert within(20, lambda: '"id":"early"' in run("--json", "show",
                                                    "earlier").stdout)
    token = json.loads(run("--json", "show", "earlier").stdout)["token"]
    run("break", "earlier", "--token", str(token), "--reason",
        "it <i>hung</i>", "--now")
    end(before)


def main():
    run("init")
    if not pictures:
        break_one()
    server, url = serve()
    b = Browser()
    b.server, b.url = server, url
    b.go(url)
    tests = [next_owner_appears_when_the_first_is_killed,
             change_is_seen_within_half_a_second, rows_are_sorted_and_searched,
             one_is_opened_and_closed_by_keys, focus_stays_where_it_was,
             tenure_is_broken_with_a_reason,
             names_that_would_be_scripts_are_words, owner_says_who_it_is,
             all_owners_are_shown_with_their_slots, breaks_of_before_are_told,
             store_tells_of_its_health,
             everything_has_a_name_for_screen_readers,
             nothing_is_cut_off_on_a_phone,
             lost_server_is_told_and_found_again, page_never_complained,
             ten_thousand_are_shown_without_stutter, page_does_not_grow]
    tests = [test for test in tests
             if os.environ.get("pattern", "") in test.__name__]
    failed = 0
    try:
        if pictures:
            take_pictures(server, url)
            tests = []
        for i, test in enumerate(tests):
            try:
                test(b)
                print(f"ok {i + 1} - {test.__name__}", flush=True)
            except Exception: # pylint: disable=broad-except
                failed += 1
                print("# " + traceback.format_exc().replace("\n", "\n# "))
                print(f"not ok {i + 1} - {test.__name__}", flush=True)
        print(f"1..{len(tests)}")
    finally:
        b.close()
        for process in started:
            end(process, signal.SIGKILL)
    return 1 if failed else 0


# So that what was started is ended.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
sys.exit(main())
