// The page of `simba verify --timeline FILE.html`. What is drawn is what can be
// seen: of spans that share a pixel the first, so that a hundred thousand of
// them cost what a screen has pixels. Names come from logs and are never markup:
// they go into the page as text only.
// name: style
:root { color-scheme: light dark; --ink: #1d2733; --soft: #66727f;
  --page: #fbfbfa; --panel: #f0f1f2; --rule: #dde0e3; --wait: #b9c2cb;
  --bad: #d62839; --storm: #e8a33d; }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e7eb; --soft: #97a2ad;
  --page: #15191d; --panel: #1e2429; --rule: #313940; --wait: #4a555f; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 13px/1.45 system-ui, sans-serif; }
header { position: sticky; top: 0; z-index: 2; background: var(--page);
  border-bottom: 1px solid var(--rule); }
h1 { font-size: 15px; margin: 0; padding: 10px 14px 4px; display: flex;
  gap: 12px; align-items: baseline; flex-wrap: wrap; }
h1 small { font-weight: 400; color: var(--soft); }
h1 button:first-of-type { margin-left: auto; }
button { font: inherit; color: inherit; background: var(--panel);
  border: 1px solid var(--rule); border-radius: 5px; padding: 1px 9px;
  cursor: pointer; }
button:focus-visible { outline: 2px solid #3d7dca; }
svg { display: block; width: 100%; user-select: none; touch-action: pan-y; }
#lanes { cursor: grab; } #lanes.dragged { cursor: grabbing; }
text { fill: var(--ink); font: 11px system-ui, sans-serif; }
.soft { fill: var(--soft); } .name { font-weight: 600; font-size: 12px; }
.rule { stroke: var(--rule); fill: none; } .band { fill: var(--panel); }
.wait { fill: var(--wait); } .storm { fill: var(--storm); }
.shade { fill: var(--storm); opacity: .13; } .faint { opacity: .35; }
.bad { fill: var(--bad); } .badline { stroke: var(--bad); opacity: .55; }
.renewed { stroke: #fff; stroke-opacity: .85; fill: none; }
.doubt { stroke: var(--storm); stroke-width: 1.6; fill: none; }
.forced { stroke: var(--bad); stroke-width: 1.6; fill: none; }
#tip { position: fixed; pointer-events: none; background: var(--ink);
  color: var(--page); padding: 5px 9px; border-radius: 5px; max-width: 460px;
  white-space: pre-line; z-index: 3; overflow-wrap: anywhere; }
#found { padding: 6px 14px 14px; } #found h2 { font-size: 13px; margin: 8px 0; }
#found button { display: block; text-align: left; margin: 3px 0;
  border-left: 3px solid var(--bad); max-width: 100%; overflow-wrap: anywhere; }
// name: data
'use strict';
const D = JSON.parse(document.getElementById('data').textContent);
const COLOURS = ['#3d7dca', '#2a9d8f', '#8a5bbd', '#c77d1e', '#3f8f4f',
  '#b34a78', '#4a63b8', '#7a8b2e', '#1f8aa3', '#a3623f'];
const GUTTER = 150, OWNER = 18, LANE = 13, LANES_MOST = 40, HEAD = 24, GAP = 12;
const $ = (id) => document.getElementById(id);
let from = 0, span = D.span, width = 1000;

// From [who, from, length, heard of for, token] each, in the order of time.
function unpack(flat) {
  const spans = [];
  for (let i = 0; i < flat.length; i += 5) {
    spans.push({who: flat[i], from: flat[i + 1], end: flat[i + 1] + flat[i + 2],
      alive: flat[i + 1] + flat[i + 3], token: flat[i + 4]});
  }
  return spans;
}
let y = 0;
for (const m of D.mutexes) {
  const spans = unpack(m.spans);
  m.lanes = Array.from({length: Math.min(m.lane_count, LANES_MOST)}, () =>
    ({spans: [], marks: [], ids: new Set()}));
  m.owners = spans.filter((s) => s.token);
  for (const s of spans) {
    const lane = m.lanes[m.ids[s.who][1]];
    if (lane) { lane.spans.push(s); lane.ids.add(s.who); }
  }
  for (let i = 0; i < m.marks.length; i += 3) {
    const lane = m.lanes[m.ids[m.marks[i]][1]];
    if (lane) { lane.marks.push({at: m.marks[i + 1], kind: m.marks[i + 2]}); }
  }
  for (const list of [m.owners, ...m.lanes.map((l) => l.spans)]) {
    let latest = 0; // the latest end so far, for finding the first in sight
    for (const s of list) { s.latest = latest = Math.max(latest, s.end); }
  }
  m.top = y;
  y += HEAD + OWNER + 3 + m.lanes.length * LANE + GAP;
}
const height = y;

function first(list, key, at) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle][key] < at) { low = middle + 1; } else { high = middle; }
  }
  return low;
}
const x = (at) => GUTTER + (at - from) / span * (width - GUTTER - 10);
const at = (px) => from + (px - GUTTER) / (width - GUTTER - 10) * span;
const colour = (m, s) => COLOURS[m.ids[s.who][2] % COLOURS.length];

function time(us, step) {
  const digits = step >= 1e6 ? 0 : step >= 1e3 ? 3 : 6;
  const s = us / 1e6, minutes = Math.floor(s / 60);
  return D.span < 6e7 ? s.toFixed(digits) + ' s' : Math.floor(minutes / 60) +
    ':' + String(minutes % 60).padStart(2, '0') + ':' +
    (s - minutes * 60).toFixed(digits).padStart(digits ? digits + 3 : 2, '0');
}
function length(us) {
  return us < 1e3 ? us + ' µs' : us < 1e6 ? (us / 1e3).toFixed(1) + ' ms' :
    (us / 1e6).toFixed(2) + ' s';
}

// name: shapes
// Shapes are strings of numbers of ours; texts are set as text.
function element(kind, attributes, text) {
  const e = document.createElementNS('http://www.w3.org/2000/svg', kind);
  for (const k in attributes) { e.setAttribute(k, attributes[k]); }
  if (text !== undefined) { e.textContent = text; }
  return e;
}
class Paths {
  constructor() { this.all = new Map(); }
  add(key, d) { this.all.set(key, (this.all.get(key) || '') + d); }
  rect(key, left, top, w, h) {
    this.add(key, `M${left.toFixed(1)} ${top}h${w.toFixed(1)}v${h}h${
      (-w).toFixed(1)}z`);
  }
  put(svg) {
    for (const [key, d] of this.all) {
      const [cls, fill] = key.split(' ');
      svg.append(element('path', fill ? {d, class: cls, fill} : {d, class: cls}));
    }
  }
}
function drawSpans(paths, m, list, top, tall) {
  let seen = -1;
  for (let i = first(list, 'latest', from); i < list.length; i++) {
    const s = list[i];
    if (s.from > from + span) { break; }
    const left = Math.max(x(s.from), GUTTER);
    const right = Math.min(Math.max(x(s.end), left + .8), width - 10);
    if (right <= seen + .4 || right < left) { continue; }
    seen = right;
    if (!s.token) {
      paths.rect('wait', left, top + tall / 2 - 2, right - left, 4);
      continue;
    }
    const alive = Math.min(Math.max(x(s.alive), left + .8), right);
    paths.rect('own ' + colour(m, s), left, top + 1, alive - left, tall - 2);
    if (alive < right) {
      paths.rect('faint ' + colour(m, s), alive, top + 1, right - alive,
        tall - 2);
    }
  }
}
const KINDS = ['renewed', 'doubt', 'forced', 'bad'];
function drawMarks(paths, lane, top) {
  const seen = [-9, -9, -9, -9];
  for (let i = first(lane.marks, 'at', from); i < lane.marks.length; i++) {
    const k = lane.marks[i].kind, px = x(lane.marks[i].at);
    if (lane.marks[i].at > from + span) { break; }
    if (px < seen[k] + 1.5) { continue; }
    seen[k] = px;
    const p = px.toFixed(1);
    paths.add(KINDS[k], k === 3 ? `M${p} ${top - 3}l5 8h-10z` :
      k === 0 ? `M${p} ${top + 3}v${LANE - 6}` :
      `M${p} ${top + 2}m-3 0l6 ${LANE - 4}m0 ${4 - LANE}l-6 ${LANE - 4}`);
  }
}
function label(m, lane) {
  const ids = [...lane.ids];
  const name = ids.length ? m.ids[ids[0]][0] : '';
  return ids.length > 1 ? `${ids.length} contenders` :
    name.length > 18 ? name.slice(0, 8) + '…' + name.slice(-9) : name;
}
function drawMutex(svg, m) {
  const paths = new Paths();
  let top = m.top + HEAD;
  svg.append(element('text', {x: 14, y: top - 7, class: 'name'}, m.name),
    element('rect', {x: GUTTER, y: top, width: width - GUTTER - 10,
      height: OWNER, class: 'band'}),
    element('text', {x: 14, y: top + 13}, 'owner'));
  drawSpans(paths, m, m.owners, top, OWNER);
  top += OWNER + 3;
  for (const lane of m.lanes) {
    svg.append(element('text', {x: 14, y: top + 10, class: 'soft'},
      label(m, lane)));
    drawSpans(paths, m, lane.spans, top, LANE);
    drawMarks(paths, lane, top);
    top += LANE;
  }
  if (m.lane_count > LANES_MOST) {
    svg.append(element('text', {x: 14, y: top + 9, class: 'soft'},
      `and ${m.lane_count - LANES_MOST} lanes more`));
  }
  paths.put(svg);
}
// name: drawing
function drawHead(svg) {
  const paths = new Paths();
  let step = 1;
  for (let i = 0; span / step > width / 110; i++) {
    step *= i % 3 === 1 ? 2.5 : 2;
  }
  for (let t = Math.ceil(from / step) * step; t <= from + span; t += step) {
    svg.append(element('text', {x: x(t) + 3, y: 13, class: 'soft'},
      time(t, step)));
    paths.add('rule', `M${x(t).toFixed(1)} 3V46`);
  }
  svg.append(element('text', {x: 14, y: 34}, 'faults'));
  let free = GUTTER, seen = -1;
  for (const f of D.faults) {
    const left = Math.max(x(f[0]), GUTTER), right = Math.min(x(f[1]), width - 10);
    if (right < GUTTER || left > width - 10 || right < seen + .5) { continue; }
    seen = right;
    paths.rect('storm', left, 24, Math.max(right - left, 2), 6);
    if (left >= free) {
      const t = element('text', {x: left, y: 43, class: 'soft'}, f[2]);
      svg.append(t);
      free = left + t.getComputedTextLength() + 8;
    }
  }
  paths.put(svg);
}
function draw() {
  const head = $('head'), body = $('lanes');
  width = Math.max(document.body.clientWidth, 400);
  head.replaceChildren();
  body.replaceChildren();
  head.setAttribute('viewBox', `0 0 ${width} 50`);
  body.setAttribute('viewBox', `0 0 ${width} ${height}`);
  head.style.height = '50px';
  body.style.height = height + 'px';
  drawHead(head);
  const shades = new Paths(), top = -body.getBoundingClientRect().top;
  for (const f of D.faults) {
    const left = Math.max(x(f[0]), GUTTER), right = Math.min(x(f[1]), width - 10);
    if (right > left + 1) { shades.rect('shade', left, 0, right - left, height); }
  }
  shades.put(body);
  D.mutexes.forEach((m, i) => {
    const end = i + 1 < D.mutexes.length ? D.mutexes[i + 1].top : height;
    if (end > top && m.top < top + innerHeight) { drawMutex(body, m); }
  });
  for (const f of D.findings) {
    if (f[0] >= from && f[0] <= from + span) {
      const m = D.mutexes[f[1]];
      body.append(element('line', {x1: x(f[0]), x2: x(f[0]), y1: m.top + 12,
        y2: m.top + HEAD + OWNER + 3 + m.lanes.length * LANE,
        class: 'badline'}));
    }
  }
}
let asked = 0;
function redraw() {
  if (!asked) { asked = requestAnimationFrame(() => { asked = 0; draw(); }); }
}
function look(left, wide) {
  span = Math.min(Math.max(wide, 200), D.span);
  from = Math.min(Math.max(left, 0), D.span - span);
  redraw();
}
const zoom = (by, px) => { const t = at(px); look(t - (t - from) * by, span * by); };

// name: hands
function under(e) {
  const box = $('lanes').getBoundingClientRect();
  const px = (e.clientX - box.left) * width / box.width, py = e.clientY - box.top;
  const m = D.mutexes.findLast((b) => b.top <= py);
  if (!m || px < GUTTER) { return null; }
  const row = py - m.top - HEAD;
  const lane = m.lanes[Math.floor((row - OWNER - 3) / LANE)];
  const list = row >= 0 && row < OWNER ? m.owners : lane ? lane.spans : [];
  const near = span / (width - GUTTER) * 2, t = at(px);
  for (let i = first(list, 'latest', t - near); i < list.length; i++) {
    if (list[i].from > t + near) { break; }
    if (list[i].end >= t - near) { return [m, list[i]]; }
  }
  return null;
}
const tip = $('tip');
let drag = null;
addEventListener('pointermove', (e) => {
  if (drag) {
    look(drag.from - (e.clientX - drag.x) * span / (width - GUTTER), span);
    tip.hidden = true;
    return;
  }
  const hit = e.target.closest && e.target.closest('#lanes') ? under(e) : null;
  tip.hidden = !hit;
  if (hit) {
    const [m, s] = hit;
    tip.textContent = `${m.ids[s.who][0]}\n${s.token ? 'owns' : 'waits for'} ${
      m.name} from ${time(s.from, 1e3)} for ${length(s.end - s.from)}${
      s.token ? '\ntoken ' + s.token : ''}${
      s.alive < s.end ? '\nnot heard of after ' + time(s.alive, 1e3) : ''}`;
    tip.style.left = Math.min(e.clientX + 14, innerWidth - 300) + 'px';
    tip.style.top = Math.min(e.clientY + 16, innerHeight - 90) + 'px';
  }
});
$('lanes').addEventListener('pointerdown', (e) => {
  if (e.button === 0) { drag = {x: e.clientX, from};
    $('lanes').classList.add('dragged'); }
});
addEventListener('pointerup', () => { drag = null;
  $('lanes').classList.remove('dragged'); });
for (const svg of [$('head'), $('lanes')]) {
  // Over the names the wheel scrolls the page, elsewhere it zooms.
  svg.addEventListener('wheel', (e) => {
    const px = e.clientX - svg.getBoundingClientRect().left;
    if (px < GUTTER) { return; }
    e.preventDefault();
    if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
      look(from + (e.deltaX || e.deltaY) / width * span, span);
    } else {
      zoom(Math.exp(e.deltaY / 400), px);
    }
  }, {passive: false});
  svg.addEventListener('dblclick', (e) => zoom(.25, e.clientX));
}
const middle = () => (width + GUTTER) / 2;
const keys = {'+': () => zoom(.5, middle()), '-': () => zoom(2, middle()),
  '0': () => look(0, D.span), ArrowLeft: () => look(from - span / 4, span),
  ArrowRight: () => look(from + span / 4, span)};
addEventListener('keydown', (e) => { if (keys[e.key]) { keys[e.key](); } });
$('in').onclick = keys['+'];
$('out').onclick = keys['-'];
$('all').onclick = keys['0'];
addEventListener('resize', redraw);
addEventListener('scroll', redraw);
const count = (n, one, more = one + 's') => `${n} ${n === 1 ? one : more}`;
$('sum').textContent = [count(D.mutexes.length, 'mutex', 'mutexes'),
  count(D.mutexes.reduce((n, m) => n + m.owners.length, 0), 'tenure'),
  count(D.faults.length, 'fault'), count(D.findings.length, 'finding'),
  length(D.span)].join(', ');
if (D.findings.length) {
  $('found').append(Object.assign(document.createElement('h2'),
    {textContent: 'Findings'}));
}
for (const f of D.findings.slice(0, 500)) {
  const b = document.createElement('button');
  b.textContent = time(f[0], 1e3) + '  ' + f[2];
  b.onclick = () => { const wide = Math.min(span, 5e6);
    scrollTo(0, D.mutexes[f[1]].top); look(f[0] - wide / 2, wide); };
  $('found').append(b);
}
draw();
