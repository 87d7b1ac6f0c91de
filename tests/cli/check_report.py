#!/usr/bin/env python3
"""check_report.py JSON PAGE: is the page of a bench report well-formed, whole
and alone, and does it say what the JSON says?"""
import json
import sys
import xml.etree.ElementTree as tree

SVG = "{http://www.w3.org/2000/svg}"
failures = []


def want(is_so, what):
    if not is_so:
        failures.append(what)


with open(sys.argv[1], encoding="utf-8") as file:
    report = json.loads(file.read())
with open(sys.argv[2], encoding="utf-8") as file:
    doctype, _, page = file.read().partition("\n")
root = tree.fromstring(page)  # it is XML as well
want(doctype == "<!DOCTYPE html>", "no doctype")

# Whole and alone: no script, and nothing is fetched.
for element in root.iter():
    want(element.tag not in ("script", "link", "img", "iframe"), element.tag)
    for name in element.attrib:
        want(name not in ("src", "href") and not name.startswith("on"), name)
want("url(" not in page and "@import" not in page, "something is fetched")

# All figures, each with something in it that can be seen.
stores = [store["store"] for store in report["stores"]]
scenarios = {(r["store"], r["scenario"]) for r in report["results"]}
names = {"pair", "throughput", "handoff", "successor", "waiters", "crash", "idle"}
want({name for _, name in scenarios} == names, f"scenarios: {scenarios}")
wanted = {"waiters", "throughput", "start"}
if any(r.get("bytes_per_contender") for r in report["results"]):
    wanted.add("memory")  # a sanitizer's allocator tells nothing of it
wanted |= {
    f"{name}-{i}"
    for i, store in enumerate(stores)
    for name in ("pair", "handoff")
    if (store, name) in scenarios
}
figures = {str(svg.get("id")): svg for svg in root.iter(SVG + "svg")}
want(set(figures) == wanted, f"figures: {sorted(figures)}")
for name, svg in figures.items():
    lines = [p for p in svg.iter(SVG + "path") if "L" in p.get("d")]
    want(lines, f"{name} has no line")
    texts = "".join(svg.itertext())
    want("nan" not in texts and "inf" not in texts, f"{name}: {texts}")

# Rows as the JSON has them, in its order.
rows = [
    ["".join(cell.itertext()) for cell in row]
    for row in root.iter("tr")
    if row.find("td") is not None
]
want(len(rows) == len(report["results"]), f"{len(rows)} rows")
names = (
    ["contenders", "n", "p50_us", "p99_us", "p999_us", "per_second"]
    + ["floor_p50_us", "spinning_floor_p50_us", "floor_per_second", "ratio_p50"]
)
idle_names = (
    ["contenders", "bytes_per_contender", "start_seconds", "cpu_percent"]
    + ["requests_per_second"]
)
for row, result in zip(rows, report["results"]):
    is_idle = result["scenario"] == "idle"
    want(row[0].split(",")[0] == result["scenario"], f"{row} of {result}")
    for text, name in zip(row[1:], idle_names if is_idle else names):
        number = result.get(name) or 0
        if name == "contenders" and result["scenario"] == "pair":
            number = 0
        want(float(text or 0) == number, f"{result}: {name} is '{text}'")

# Facts, as they are, whatever they hold.
facts = "".join(next(root.iter("dl")).itertext())
for text in stores + [report["cpu"], report["command"], report["system"]]:
    want(text in facts, f"not told: {text}")

for failure in failures:
    print("#", failure)
sys.exit(1 if failures else 0)
