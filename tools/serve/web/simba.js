/* The live page. Names, ids and reasons are anybody's words: they only ever
 * become text of an element, never markup. */
"use strict";

const byId = (id) => document.getElementById(id);

/* An element with a class, and what is in it: texts or elements. */
function make(tag, className, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children.filter((child) => child != null));
  return element;
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/* Where the server is; not relative to a page whose URL has a password in it,
 * which a browser refuses. */
const base = location.origin + location.pathname;

/* --- times ---------------------------------------------------------------- */

/* The server's time of day less ours, as far as is known: a message that came
 * faster knows better. */
let clockOffset = -Infinity;
const serverNow = () =>
  Date.now() + (clockOffset === -Infinity ? 0 : clockOffset);

function duration(ms) {
  if (ms == null) return "–";
  if (ms < 0) ms = 0;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 60) return `${Math.floor(s)} s`;
  const two = (n) => String(Math.floor(n)).padStart(2, "0");
  if (s < 3600) return `${Math.floor(s / 60)} m ${two(s % 60)} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${two((s % 3600) / 60)} m`;
  return `${Math.floor(s / 86400)} d ${two((s % 86400) / 3600)} h`;
}

/* An age that is looked at while it grows: no fractions, which flicker. */
const age = (ms) => ms == null ? "–" : ms < 1000 ? "now" :
  duration(Math.floor(ms / 1000) * 1000).replace(/^(\d)\.0 s$/, "$1 s");

const timeOf = (ms, withDay) => new Date(ms).toLocaleString(undefined,
  withDay ? { dateStyle: "short", timeStyle: "medium" }
          : { timeStyle: "medium" });

/* --- what is known -------------------------------------------------------- */

const keyOf = (store, name) => `${store}\n${name}`;
const rows = new Map();
let stores = [];
let session = { may_break: false };

/* Ids that the library makes are "number:pid@host-random". */
function hostOf(id) {
  const at = id == null ? -1 : id.lastIndexOf("@");
  return at < 0 ? "" : id.slice(at + 1).replace(/-[0-9a-f]{12}$/, "");
}

function ownerOf(id) {
  const made = id == null ? null : /^\d+:(\d+)@/.exec(id);
  return made ? `pid ${made[1]}` : id == null ? "" :
    id.includes("@") ? id.slice(0, id.lastIndexOf("@")) : id;
}

/* Short, for people; the whole id is told beside it. */
function nameOf(id) {
  const host = hostOf(id);
  return host ? `${ownerOf(id)} on ${host}` : ownerOf(id);
}

/* How many own it, of whom the oldest is named. */
const countOf = (row) => row.owned > 1 ? `${row.owned} own it: ` : "";

/* As stream.c puts it. */
function readRow(list) {
  const [store, name, id, token, since, ttl, until, lease, broken, waiting,
    tenures, breaks, gaps, owned, slots, told] = list;
  const [pid, host, user, command] = told ?? [0, "", "", ""];
  const owner = user ? `${user}${pid ? `, pid ${pid}` : ""}` : ownerOf(id);
  return { key: keyOf(store, name), store, name, id, token, since, ttl, until,
    lease, broken, waiting, tenures, breaks, gaps, owned: owned ?? 0, slots,
    command, host: host || hostOf(id), owner,
    text: `${name}\n${id ?? ""}\n${host}\n${owner}\n${command}`.toLowerCase() };
}

/* What must be done before the next drawing: sorting costs most and is needed
 * least. */
let isOrderDirty = true, isViewDirty = true;
let tenureSum = 0; /* begun since this page was opened */
const tenureTimes = []; /* [when, sum], for the last minute */

function takeRow(list, isNews) {
  const row = readRow(list), old = rows.get(row.key);
  if (isNews && (!old || old.tenures !== row.tenures)) {
    tenureSum += old ? Math.max(0, row.tenures - old.tenures) : row.tenures;
    row.news = performance.now();
  }
  isViewDirty = isViewDirty || !old || old.id !== row.id ||
    old.waiting !== row.waiting || old.text !== row.text;
  isOrderDirty = isOrderDirty || !old || old[sort.key] !== row[sort.key];
  if (old) {
    Object.assign(old, row);
  } else {
    rows.set(row.key, row);
    ordered.push(row);
  }
  if (isNews && detail.key === row.key) detail.refresh();
}

function dropRow(key) {
  const row = rows.get(key);
  if (!row) return;
  row.isGone = true;
  rows.delete(key);
  isOrderDirty = true;
}

/* --- which, in which order ------------------------------------------------ */

/* All rows in their order, and of them those that are wanted. */
const sort = { by: "name", key: "name", down: false };
let filter = "all", ordered = [], view = [];

const compareText = new Intl.Collator(undefined, { numeric: true }).compare;
const late = Number.MAX_SAFE_INTEGER;
const orders = {
  name: (a, b) => compareText(a.name, b.name),
  owner: (a, b) => compareText(a.owner || "\uffff", b.owner || "\uffff"),
  host: (a, b) => compareText(a.host || "\uffff", b.host || "\uffff"),
  /* The longest first means the earliest first. */
  age: (a, b) => (b.since ?? -1) - (a.since ?? -1),
  lease: (a, b) => (a.until ?? late) - (b.until ?? late),
  waiting: (a, b) => (a.waiting ?? -1) - (b.waiting ?? -1),
};

const filters = {
  all: () => true,
  owned: (row) => row.id != null,
  waited: (row) => row.waiting > 0,
  free: (row) => row.id == null,
};

/* The rows are nearly in order already, which makes sorting quick. */
function arrange() {
  const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const order = orders[sort.by], sign = sort.down ? -1 : 1;
  let owned = 0, waiting = 0;
  if (isOrderDirty) {
    ordered = ordered.filter((row) => !row.isGone);
    ordered.sort((a, b) => sign * order(a, b) || compareText(a.name, b.name) ||
      a.store - b.store);
  }
  view = [];
  for (const row of ordered) {
    owned += row.id != null;
    waiting += row.waiting > 0 ? row.waiting : 0;
    if (filters[filter](row) && words.every((word) => row.text.includes(word))) {
      view.push(row);
    }
  }
  setText(byId("n-owned"), owned.toLocaleString());
  setText(byId("n-waiting"), waiting.toLocaleString());
  setText(byId("n-free"), (rows.size - owned).toLocaleString());
  setText(byId("shown"), view.length === rows.size ? "" :
    `${view.length.toLocaleString()} of ${rows.size.toLocaleString()}`);
  const empty = byId("empty");
  empty.hidden = view.length > 0;
  setText(empty, rows.size === 0
    ? "Nobody owns or waits for a mutex. The first lock will appear here."
    : "No mutex matches.");
  byId("table").setAttribute("aria-rowcount", String(view.length + 1));
  isOrderDirty = isViewDirty = false;
}

/* --- rows on the screen --------------------------------------------------- */

/* Only those that can be seen are there: one of these for each, used again and
 * again, between two rows that are as high as all that are not. */
const pool = [];
const padAbove = make("tr", "pad"), padBelow = make("tr", "pad");
for (const pad of [padAbove, padBelow]) {
  pad.append(make("td"));
  pad.setAttribute("aria-hidden", "true");
}

function makeMeter() {
  const bar = make("i"), meter = make("div", "meter", bar);
  const left = make("span", "left"), all = make("div", "lease", meter, left);
  return { all, bar, meter, left };
}

function drawMeter(m, row) {
  const now = Math.min(serverNow(), frozenAt);
  const left = row.until == null ? null : Math.max(0, row.until - now);
  const part = row.id == null || left == null ? 0 :
    Math.min(1, left / (row.lease || left || 1));
  const name = row.id == null || row.until == null ? "meter none" :
    row.broken ? "meter broken" : left === 0 ? "meter over" :
    row.ttl != null && row.ttl < now ? "meter late" : "meter";
  if (m.meter.className !== name) m.meter.className = name;
  m.bar.style.transform = `scaleX(${part.toFixed(3)})`;
  setText(m.left, row.id == null ? "" : left == null ? "session" :
    left < 60000 ? `${Math.ceil(left / 1000)} s` : age(left));
}

function makeRow() {
  const link = make("a"), of = make("span", "of");
  const cells = ["name", "owner", "host", "age", "lease", "waiting"].map(
    (name) => make("td", `c-${name}`));
  const meter = makeMeter(), count = make("span", "count");
  const who = make("span", "who"), what = make("span", "what");
  cells[0].append(link, of);
  cells[1].append(who, what);
  cells[4].append(meter.all);
  cells[5].append(count);
  const element = make("tr", "row", ...cells);
  element.setAttribute("role", "row");
  for (const cell of cells) cell.setAttribute("role", "cell");
  element.addEventListener("click", (event) => {
    if (event.target.closest("a") == null) location.hash = link.hash;
  });
  return { element, link, of, cells, meter, count, who, what, index: -1 };
}

const hashOf = (row) => `#/${row.store}/${encodeURIComponent(row.name)}`;

function drawRow(place, index) {
  const row = view[index];
  const { element, link, of, cells, meter, count } = place;
  const name = `row${row.id == null ? " is-free" : ""}` +
    (row.news && performance.now() - row.news < 1500 ? " is-new" : "");
  if (place.index !== index) {
    place.index = index;
    element.setAttribute("aria-rowindex", String(index + 2));
  }
  if (element.className !== name) element.className = name;
  setText(link, row.name);
  if (place.key !== row.key) {
    place.key = row.key;
    link.href = hashOf(row);
    link.title = row.name;
  }
  setText(of, stores.length > 1 ? `  ${storeName(row.store)}` : "");
  if (detail.key === row.key) element.setAttribute("aria-current", "true");
  else element.removeAttribute("aria-current");
  setText(place.who, row.id == null ? "free" : countOf(row) + row.owner +
    (hasHost || !row.host ? "" : ` on ${row.host}`));
  setText(place.what, row.command);
  cells[1].title = row.id ?? "";
  setText(cells[2], row.host);
  cells[2].title = row.host;
  setText(cells[3], row.since == null ? "" :
    age(Math.min(serverNow(), frozenAt) - row.since));
  drawMeter(meter, row);
  setText(count, row.waiting == null ? "?" : String(row.waiting));
  count.className = row.waiting > 0 ? "count some" : "count";
}

let rowHeight = 46, hasHost = true;
function measure() {
  hasHost = document.querySelector("th.c-host").offsetWidth > 0;
  rowHeight = parseFloat(
    getComputedStyle(document.documentElement).getPropertyValue("--row")) || 46;
}

function drawRows() {
  const scroll = byId("scroll"), body = byId("rows");
  const focused = pool.find((place) => place.link === document.activeElement);
  const key = focused?.key;
  const seen = Math.ceil(scroll.clientHeight / rowHeight) + 8;
  const first = Math.max(0, Math.min(
    Math.floor(scroll.scrollTop / rowHeight) - 4, view.length - seen));
  const count = Math.min(seen, view.length);
  if (pool.length !== count) {
    while (pool.length < count) pool.push(makeRow());
    pool.length = count;
    body.replaceChildren(padAbove, ...pool.map((place) => place.element),
      padBelow);
  }
  /* A row keeps its element while it is scrolled. */
  const at = first % (count || 1);
  for (let i = 0; i < count; i++) {
    const place = pool[i], index = first + (i >= at ? i - at : i - at + count);
    drawRow(place, index);
  }
  let before = padAbove;
  for (let i = 0; i < count; i++) {
    const element = pool[(at + i) % count].element;
    if (before.nextSibling !== element) before.after(element);
    before = element;
  }
  padAbove.firstChild.style.height = `${first * rowHeight}px`;
  padBelow.firstChild.style.height =
    `${(view.length - first - count) * rowHeight}px`;
  /* Others come and go before the one that has the focus. */
  if (focused && (focused.key !== key ||
      focused.link !== document.activeElement)) {
    pool.find((place) => place.key === key)?.link.focus(
      { preventScroll: true });
  }
}

/* Drawn as often as somebody can see it, and no more often than that. */
let isDrawn = false, arrangedAt = 0;
function draw() {
  if (isDrawn) return;
  isDrawn = true;
  requestAnimationFrame(() => {
    isDrawn = false;
    if ((isOrderDirty || isViewDirty) && performance.now() - arrangedAt >
        (rows.size > 2000 ? 500 : 60)) {
      arrange();
      arrangedAt = performance.now();
    }
    drawRows();
    detail.tick();
  });
}

/* --- stores --------------------------------------------------------------- */

function storeName(index) {
  const store = stores[index];
  return store ? store.store.replace(/^(sqlite:).*\//, "$1…/") : "";
}

function drawStores() {
  const focused = [...byId("stores").children].indexOf(document.activeElement);
  byId("stores").replaceChildren(...stores.map((store) => {
    const gravity = store.up ? store.gravity ?? "" : "down";
    const chip = make("button", "chip", make("span", `dot ${gravity}`),
      make("span", "", storeName(store.index)));
    chip.type = "button";
    chip.title = store.store;
    chip.setAttribute("aria-label", `${store.store}: ${verdict(store)}`);
    chip.addEventListener("click", () => showDoctor(store.index));
    return chip;
  }));
  byId("stores").children[focused]?.focus();
  if (byId("doctor").open) fillDoctor();
  drawStale();
}

const verdicts = { ok: "all is well", note: "nothing is weak",
  weak: "has a weakness", serious: "has a serious weakness" };
function verdict(store) {
  return store.up ? verdicts[store.gravity] ?? "reachable" :
    `cannot be reached since ${timeOf(store.since_unix_ms)}`;
}

let doctorOf = 0;
function showDoctor(index) {
  doctorOf = index;
  fillDoctor();
  byId("doctor").showModal();
}

function fillDoctor() {
  const store = stores[doctorOf], weight = { serious: 0, weak: 1, note: 2 };
  if (!store) return;
  const isFocused = byId("doctor").contains(document.activeElement);
  const close = make("button", "button", "Close");
  const form = make("form", "", close);
  form.method = "dialog";
  const findings = [...store.findings].sort((a, b) =>
    (weight[a.gravity] ?? 3) - (weight[b.gravity] ?? 3));
  byId("doctor").replaceChildren(
    make("h2", "", store.store),
    make("p", store.up ? "soft" : "error",
      store.up ? `${verdict(store)}; ${store.mutexes} mutexes are known` :
      `${verdict(store)}: ${store.message ?? ""}`),
    make("ul", "findings", ...findings.map((finding) => make("li", "",
      make("span", `dot ${finding.gravity}`),
      make("span", "", make("b", "", finding.finding), " ",
        make("span", "soft", finding.gravity)),
      make("p", "", finding.text)))),
    form);
  if (isFocused) close.focus();
}

/* --- one mutex ------------------------------------------------------------ */

const svgNs = "http://www.w3.org/2000/svg";
function svg(tag, attributes, ...children) {
  const element = document.createElementNS(svgNs, tag);
  for (const [name, value] of Object.entries(attributes)) {
    element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

function colourOf(id) {
  let hash = 7;
  for (const c of id) hash = (hash * 31 + c.codePointAt(0)) >>> 0;
  return `o${hash % 8}`;
}

function keyColour(id) {
  return svg("svg", { class: "key", viewBox: "0 0 9 9", "aria-hidden": "true" },
    svg("rect", { class: colourOf(id), width: 9, height: 9, rx: 2 }));
}

function part(numbers, of) {
  const sorted = [...numbers].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * of))];
}

/* Which line of the picture each is on: that of its slot. Where slots have no
 * numbers, the first one that is free. */
function lanesOf(tenures) {
  const until = [];
  return tenures.map((tenure) => {
    const began = tenure.began_unix_ms;
    let lane = tenure.slot ?? until.findIndex((end) => end <= began + 50);
    lane = Math.min(lane < 0 ? until.length : lane, 31);
    until[lane] = tenure.ended_unix_ms ?? Infinity;
    for (let i = 0; i < lane; i++) until[i] ??= -Infinity;
    return lane;
  });
}

function timeline(tenures) {
  const now = serverNow(), from = tenures[0].began_unix_ms;
  const span = Math.max(1, now - from), x = (ms) => (ms - from) / span * 1000;
  const lanes = lanesOf(tenures), count = Math.max(...lanes) + 1;
  const high = count === 1 ? 36 : Math.max(8, 72 / count - 2);
  const whole = 18 + count * (high + 2) - 2;
  const picture = svg("svg", { class: "timeline",
    viewBox: `0 0 1000 ${whole}`,
    preserveAspectRatio: "none", role: "img", "aria-label":
    `Timeline of the last ${tenures.length} tenures; the table below has them` });
  picture.style.height = `${whole}px`;
  for (const [i, tenure] of tenures.entries()) {
    const left = x(tenure.began_unix_ms);
    const right = x(tenure.ended_unix_ms ?? now);
    picture.append(svg("rect", { x: left, y: 9 + lanes[i] * (high + 2),
      height: high,
      width: Math.max(2, right - left),
      class: colourOf(tenure.id) + (tenure.broken ? " broken" : "") },
      svg("title", {}, `${tenure.id}\n${timeOf(tenure.began_unix_ms)}, for ` +
        duration((tenure.ended_unix_ms ?? now) - tenure.began_unix_ms))));
    if (tenure.gap) {
      picture.append(svg("line", { x1: left, x2: left, y1: 2, y2: whole - 2 },
        svg("title", {}, "Others may have been missed here")));
    }
  }
  return [picture, make("div", "axis", make("span", "", timeOf(from)),
    make("span", "", "now"))];
}

function pastTable(tenures) {
  const head = make("tr", "", ...["Owner", "Began", "Held for", "Hand-over"].map(
    (word, i) => {
      const cell = make("th", i === 0 ? "p-owner" : "", word);
      cell.scope = "col";
      return cell;
    }));
  const now = serverNow();
  return make("div", "past", make("table", "", make("thead", "", head),
    make("tbody", "", ...[...tenures].reverse().map((tenure) => {
      const owner = make("td", "", keyColour(tenure.id), nameOf(tenure.id));
      owner.title = tenure.id;
      if (tenure.slot != null) {
        owner.append(make("div", "soft", `slot ${tenure.slot}`));
      }
      if (tenure.broken) {
        owner.append(make("div", "why", tenure.broken_by
          ? `broken by ${tenure.broken_by}` : "broken"));
      }
      if (tenure.gap) owner.append(make("div", "soft", "after a gap"));
      return make("tr", "", owner, make("td", "", timeOf(tenure.began_unix_ms)),
        make("td", "", tenure.ended_unix_ms == null ? "still held" :
          duration(tenure.ended_unix_ms - tenure.began_unix_ms)),
        make("td", "", tenure.handed_over_ms == null ? "" :
          duration(tenure.handed_over_ms)));
    }))));
}

const detail = {
  key: null, store: 0, name: "", shown: null, meter: null, age: null,
  waits: [], askedAt: 0, timer: 0, isAsking: false,

  open(store, name) {
    const key = keyOf(store, name);
    if (this.key === key) return;
    this.key = key;
    this.store = store;
    this.name = name;
    this.shown = null;
    const panel = byId("detail");
    panel.hidden = false;
    document.body.classList.add("has-detail");
    measure();
    panel.replaceChildren(this.head(null), make("p", "soft", "…"));
    panel.scrollTop = 0;
    panel.focus({ preventScroll: true });
    this.ask();
    draw();
  },

  close() {
    if (this.key == null) return;
    const key = this.key;
    this.key = null;
    clearTimeout(this.timer);
    byId("detail").hidden = true;
    byId("detail").replaceChildren();
    document.body.classList.remove("has-detail");
    measure();
    drawRows();
    const place = pool.find((one) => one.key === key);
    if (place) place.link.focus({ preventScroll: true });
  },

  /* Something has changed: ask soon, but not again and again. */
  refresh() {
    clearTimeout(this.timer);
    const wait = Math.max(0, this.askedAt + 300 - performance.now());
    this.timer = setTimeout(() => this.ask(), wait);
  },

  async ask() {
    if (this.isAsking) return this.refresh();
    const key = this.key;
    this.isAsking = true;
    this.askedAt = performance.now();
    clearTimeout(this.timer);
    try {
      const reply = await fetch(`${base}api/mutex?store=${this.store}&mutex=` +
        encodeURIComponent(this.name));
      const shown = await reply.json();
      if (this.key === key) this.fill(reply.ok ? shown : null, shown.message);
    } catch {
      /* The line above the page says that nothing can be reached. */
    }
    this.isAsking = false;
    if (this.key != null) this.timer = setTimeout(() => this.ask(), 5000);
  },

  head(shown) {
    const close = make("button", "icon", "×");
    close.type = "button";
    close.setAttribute("aria-label", "Close");
    close.title = "Close (Esc)";
    close.dataset.act = "close";
    close.addEventListener("click", () => { location.hash = ""; });
    const state = shown == null ? "" : shown.broken ? "broken" :
      shown.id == null ? "free" : "owned";
    const title = make("div", "", make("h2", "", this.name),
      make("p", "sub", stores[this.store]?.store ?? ""));
    title.style.flex = "1";
    return make("header", "", title,
      state ? make("span", `badge ${state}`, state) : null, close);
  },

  fill(shown, problem) {
    const panel = byId("detail"), had = document.activeElement?.dataset?.act;
    const scrolled = [panel.scrollTop, panel.querySelector(".past")?.scrollTop];
    this.shown = shown;
    this.waits = [];
    this.meter = this.age = null;
    if (shown == null) {
      panel.replaceChildren(this.head(null), make("p", "error", problem ?? ""));
      return;
    }
    const parts = [this.head(shown), this.owner(shown), this.others(shown),
      this.queue(shown), this.breaks(shown), ...this.past(shown)];
    panel.replaceChildren(...parts.filter(Boolean));
    [panel.scrollTop] = scrolled;
    const past = panel.querySelector(".past");
    if (past && scrolled[1]) past.scrollTop = scrolled[1];
    if (had) panel.querySelector(`[data-act=${had}]`)?.focus();
    this.tick();
  },

  owner(shown) {
    const facts = make("dl", "facts live");
    const fact = (name, ...value) =>
      facts.append(make("dt", "", name), make("dd", "", ...value));
    if (shown.id == null) {
      fact("Owner", "nobody");
      return facts;
    }
    this.age = make("span");
    this.meter = makeMeter();
    fact("Owner", make("span", "mono", shown.id));
    if (shown.user) fact("User", shown.user);
    if (shown.host || hostOf(shown.id)) {
      fact("Host", shown.host || hostOf(shown.id));
    }
    if (shown.pid) fact("Process", String(shown.pid));
    if (shown.command) fact("Command", make("span", "mono", shown.command));
    fact("Held for", this.age);
    fact("Lease", this.meter.all);
    /* A row's is exact, but may be of the next owner already. */
    const row = rows.get(this.key);
    const token = row?.id === shown.id ? row.token : shown.token;
    fact("Token", make("span", "mono", token == null ? "none" : String(token)));
    if (session.may_break && stores[this.store]?.break && token != null &&
        !shown.broken) {
      const button = make("button", "button quiet-danger", "Break this tenure…");
      button.type = "button";
      button.dataset.act = "break";
      button.addEventListener("click", () => askBreak(this.store, this.name,
        shown.id, String(token)));
      fact("", button);
    }
    return facts;
  },

  /* All who own it, with their slots, where several may. */
  others(shown) {
    if (!(shown.owned > 1 || shown.slots !== 1)) return null;
    const at = serverNow();
    const limit = shown.slots == null ? "any number who share it"
      : `${shown.slots} at a time`;
    return make("section", "live",
      make("h3", "", `${shown.owned} own it, of ${limit}`),
      make("ol", "queue owners", ...shown.owners.slice(0, 200).map((owner) => {
        const held = make("em", "soft");
        if (owner.age_ms != null) this.waits.push([held, at - owner.age_ms]);
        return make("li", "", make("b", "", owner.slot == null ? "" :
          String(owner.slot)), make("span", "mono", owner.id,
          owner.broken ? make("i", "badge broken", "broken") : null,
          owner.command ? make("div", "soft", owner.command) : null), held);
      })));
  },

  /* The store's book: also what was broken before anybody looked. */
  breaks(shown) {
    if (!shown.breaks?.length) return null;
    const count = shown.breaks.length;
    return make("section", "", make("h3", "",
      count === 1 ? "Broken once" : `Broken ${count.toLocaleString()} times`),
      make("ol", "queue breaks", ...shown.breaks.slice(-20).reverse().map(
        (broken) => make("li", "", make("span", "",
          make("div", "why", `${broken.by ?? "somebody"}: ${broken.reason}`),
          make("div", "soft mono", `${broken.id ?? "?"}, token ` +
            `${broken.token}${broken.now ? ", at once" : ""}`)),
        make("em", "soft", broken.unix_ms == null ? "" :
          timeOf(broken.unix_ms, true))))));
  },

  queue(shown) {
    const section = make("section", "live", make("h3", "",
      shown.waiting > 0 ? `Queue of ${shown.waiting}` : "Nobody waits"));
    if (shown.waiters?.length) {
      const at = serverNow();
      section.append(make("ol", "queue", ...shown.waiters.slice(0, 200).map(
        (waiter) => {
          const waited = make("em", "soft");
          if (waiter.waited_ms != null) {
            this.waits.push([waited, at - waiter.waited_ms]);
          }
          return make("li", "", make("b", "", String(waiter.position)),
            make("span", "mono", waiter.id,
              waiter.offered ? make("i", "badge", "offered") : null), waited);
        })));
      if (shown.waiters.length > 200) {
        section.append(make("p", "soft",
          `and ${shown.waiters.length - 200} more`));
      }
    }
    return section;
  },

  past(shown) {
    const tenures = shown.tenures ?? [];
    if (tenures.length === 0) return [];
    const held = tenures.filter((t) => t.ended_unix_ms != null)
      .map((t) => t.ended_unix_ms - t.began_unix_ms);
    const handed = tenures.filter((t) => t.handed_over_ms != null)
      .map((t) => t.handed_over_ms);
    const stats = make("dl", "stats");
    const stat = (name, value) => stats.append(
      make("div", "", make("dt", "", name), make("dd", "", value)));
    stat("Tenures seen", shown.tenures_seen.toLocaleString());
    if (held.length) stat("Held, median", duration(part(held, .5)));
    if (handed.length) {
      stat("Hand-over, median", duration(part(handed, .5)));
      stat("Slowest", duration(Math.max(...handed)));
    }
    if (shown.breaks_seen) stat("Broken", String(shown.breaks_seen));
    if (shown.gaps_seen) stat("Gaps", String(shown.gaps_seen));
    return [make("h3", "", tenures.length === 1 ? "The last tenure" :
      `The last ${tenures.length} tenures`), ...timeline(tenures), stats,
      pastTable(tenures)];
  },

  tick() {
    const row = rows.get(this.key);
    if (this.key == null || !row) return;
    const now = Math.min(serverNow(), frozenAt);
    if (this.meter) drawMeter(this.meter, row);
    if (this.age) setText(this.age, row.since == null ? "–" :
      `${age(now - row.since)}, since ${timeOf(row.since,
        now - row.since > 43200000)}`);
    for (const [element, since] of this.waits) setText(element, age(now - since));
  },
};

/* --- breaking a tenure ---------------------------------------------------- */

function askBreak(store, name, id, token) {
  const dialog = byId("break"), error = make("p", "error");
  const reason = make("input"), now = make("input");
  const go = make("button", "button danger", "Break the tenure");
  const cancel = make("button", "button", "Cancel");
  const form = make("form", "",
    make("label", "field", "Why? It is written down with your name" +
      (session.user ? `, ${session.user}.` : "."), reason),
    make("label", "check", now, make("span", "",
      "Free it at once. Its owner may still believe that it owns the mutex, " +
      "for as long as its lease would have run: then two work at once.")),
    error, make("div", "actions", cancel, go));
  reason.type = "text";
  reason.required = true;
  reason.maxLength = 400;
  now.type = "checkbox";
  cancel.type = "button";
  error.setAttribute("role", "alert");
  cancel.addEventListener("click", () => dialog.close());
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    go.disabled = true;
    setText(error, "");
    try {
      const reply = await fetch(`${base}api/break`, { method: "POST",
        headers: { "X-Simba-Key": session.key },
        body: new URLSearchParams({ store, mutex: name, token,
          reason: reason.value, now: now.checked ? 1 : 0 }) });
      const told = await reply.json();
      if (reply.ok) dialog.close();
      else setText(error, told.message);
    } catch {
      setText(error, "The server cannot be reached; look before you try again.");
    }
    go.disabled = false;
    detail.refresh();
  });
  dialog.replaceChildren(make("h2", "", `Break ${name}?`),
    make("p", "", "This ends the tenure of ", make("span", "mono", id),
      " with token ", make("span", "mono", token), ". It can renew no more, " +
      "and the mutex is free at the end of its lease."), form);
  dialog.showModal();
  reason.focus();
}

/* --- events, and their loss ----------------------------------------------- */

/* While nothing is heard, time stands still: what is shown is of then. */
let frozenAt = Infinity, heardAt = performance.now(), heardUnix = Date.now();
let isLive = false;

function hear(data) {
  heardAt = performance.now();
  heardUnix = Date.now();
  if (data.now != null) {
    const offset = data.now - Date.now();
    /* A clock that was set counts at once. */
    clockOffset = offset > clockOffset || clockOffset - offset > 2000
      ? offset : clockOffset;
  }
  if (!isLive) {
    isLive = true;
    frozenAt = Infinity;
    drawStale();
  }
}

function lose() {
  if (isLive) {
    isLive = false;
    frozenAt = serverNow();
  }
  drawStale();
}

function drawStale() {
  const link = byId("link"), stale = byId("stale");
  const down = stores.filter((store) => !store.up);
  const isFirst = stores.length === 0;
  link.className = isLive ? "link live" : isFirst ? "link" : "link lost";
  setText(link, isLive ? "live" : isFirst ? "connecting" : "not live");
  document.body.classList.toggle("is-old", !isLive && !isFirst);
  stale.hidden = isLive ? down.length === 0 : isFirst;
  if (stale.hidden) return;
  setText(stale, !isLive
    ? `The connection is lost: this is how it was at ${timeOf(heardUnix)}. ` +
      "It is being tried again."
    : down.map((store) => `${store.store} ${verdict(store)}; what is shown ` +
      "of it may be old.").join(" "));
}

let source = null;
function listen() {
  source?.close();
  source = new EventSource(`${base}api/events`);
  source.addEventListener("stores", (event) => {
    stores = JSON.parse(event.data);
    hear({});
    drawStores();
  });
  source.addEventListener("all", (event) => {
    const data = JSON.parse(event.data);
    rows.clear();
    ordered = [];
    for (const list of data.rows) takeRow(list, false);
    isOrderDirty = true;
    arrangedAt = 0;
    hear(data);
    if (detail.key != null) detail.refresh();
    loadSession();
    draw();
  });
  source.addEventListener("rows", (event) => {
    const data = JSON.parse(event.data);
    for (const list of data.rows) takeRow(list, true);
    for (const [store, name] of data.gone ?? []) {
      dropRow(keyOf(store, name));
    }
    hear(data);
    draw();
  });
  source.addEventListener("error", () => {
    lose();
    /* A refusal ends it for good; the network does not. */
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, 2000);
  });
}

async function loadSession() {
  try {
    const reply = await fetch(`${base}api/session`);
    if (reply.ok) session = await reply.json();
  } catch {
    /* It is asked for again with the next connection. */
  }
}

/* --- people --------------------------------------------------------------- */

function follow() {
  const found = /^#\/(\d+)\/(.+)$/.exec(location.hash);
  let name = null;
  try {
    name = found && decodeURIComponent(found[2]);
  } catch {
    name = null;
  }
  if (name == null) detail.close();
  else detail.open(Number(found[1]), name);
}

function setSort(by) {
  const isWide = by === "waiting" || by === "age";
  sort.down = sort.by === by ? !sort.down : isWide && by !== "age";
  sort.by = by;
  sort.key = { age: "since", lease: "until" }[by] ?? by;
  for (const head of document.querySelectorAll("thead th")) {
    const button = head.querySelector("[data-sort]");
    if (!button) continue;
    if (button.dataset.sort === by) {
      head.setAttribute("aria-sort", sort.down ? "descending" : "ascending");
    } else {
      head.removeAttribute("aria-sort");
    }
  }
  rearrange();
}

function rearrange() {
  isOrderDirty = true;
  arrangedAt = 0;
  byId("scroll").scrollTop = 0;
  draw();
}

/* Move the focus along the rows, also to those that are not there yet. */
function step(to) {
  const scroll = byId("scroll");
  const focused = pool.find((place) => place.link === document.activeElement);
  const current = focused ? focused.index :
    view.findIndex((row) => row.key === detail.key);
  const index = Math.max(0, Math.min(view.length - 1, to(current)));
  const top = index * rowHeight, head = 40;
  if (view.length === 0) return;
  if (top < scroll.scrollTop) scroll.scrollTop = top;
  else if (top + rowHeight + head > scroll.scrollTop + scroll.clientHeight) {
    scroll.scrollTop = top + rowHeight + head - scroll.clientHeight;
  }
  drawRows();
  pool.find((place) => place.index === index)?.link.focus(
    { preventScroll: true });
}

function onKey(event) {
  const isTyping = event.target.matches("input");
  if (event.ctrlKey || event.metaKey || event.altKey ||
      document.querySelector("dialog[open]")) return;
  const steps = { ArrowDown: (i) => i + 1, ArrowUp: (i) => i - 1,
    j: (i) => i + 1, k: (i) => i - 1, Home: () => 0, End: () => Infinity };
  if (event.key === "Escape") {
    if (isTyping && event.target.value) {
      event.target.value = "";
      rearrange();
    } else if (detail.key != null) {
      location.hash = "";
    }
  } else if (event.key === "/" && !isTyping) {
    byId("search").focus();
  } else if (event.key === "?" && !isTyping) {
    byId("keys").showModal();
  } else if (steps[event.key] && (!isTyping || event.key === "ArrowDown") &&
      !event.target.closest?.(".detail")) {
    step(steps[event.key]);
  } else {
    return;
  }
  event.preventDefault();
}

const dark = matchMedia("(prefers-color-scheme: dark)");
function setTheme() {
  let chosen = null;
  try {
    chosen = localStorage.getItem("simba-theme");
  } catch {
    chosen = null;
  }
  document.documentElement.dataset.theme =
    chosen ?? (dark.matches ? "dark" : "light");
}

function start() {
  for (const id of ["table", "rows"]) {
    byId(id).setAttribute("role", id === "table" ? "table" : "rowgroup");
  }
  setTheme();
  dark.addEventListener("change", setTheme);
  byId("theme").addEventListener("click", () => {
    const next = document.documentElement.dataset.theme === "dark"
      ? "light" : "dark";
    try {
      localStorage.setItem("simba-theme", next);
    } catch {
      /* Then it lasts until the page is closed. */
    }
    document.documentElement.dataset.theme = next;
  });
  byId("help").addEventListener("click", () => byId("keys").showModal());
  byId("search").addEventListener("input", rearrange);
  byId("filter").addEventListener("click", (event) => {
    const chosen = event.target.closest("[data-filter]");
    if (!chosen) return;
    filter = chosen.dataset.filter;
    for (const button of byId("filter").children) {
      button.setAttribute("aria-pressed", String(button === chosen));
    }
    rearrange();
  });
  document.querySelector("thead").addEventListener("click", (event) => {
    const button = event.target.closest("[data-sort]");
    if (button) setSort(button.dataset.sort);
  });
  byId("scroll").addEventListener("scroll", draw, { passive: true });
  document.addEventListener("keydown", onKey);
  addEventListener("hashchange", follow);
  addEventListener("resize", () => { measure(); draw(); });
  measure();
  follow();
  listen();
  setInterval(() => {
    const minute = performance.now() - 60000;
    tenureTimes.push([performance.now(), tenureSum]);
    while (tenureTimes.length > 1 && tenureTimes[0][0] < minute) {
      tenureTimes.shift();
    }
    const [at, sum] = tenureTimes[0];
    const span = (performance.now() - at) / 60000;
    setText(byId("n-rate"), span < .05 ? "–" :
      Math.round((tenureSum - sum) / span).toLocaleString());
    /* The server gives a sign every five seconds. */
    if (performance.now() - heardAt > 12000) lose();
    else if (!isLive) drawStale();
  }, 1000);
  setInterval(() => { if (!document.hidden) draw(); }, 250);
}

start();
