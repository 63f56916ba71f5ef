// The view that all charts share: which rows are shown, where the cursor is, and what moves them.
const view = { from: -0.5, to: 0.5, cursor: null, brush: null };
const size = () => data.row.length;
const root = document.documentElement;
let printing = false, waiting = false, later = 0;

function show(from, to, remember = true) {
  const all = size(), least = Math.min(all, 5);
  let span = Math.max(least, Math.min(all, to - from));
  let start = (from + to) / 2 - span / 2;
  start = Math.max(-0.5, Math.min(all - 0.5 - span, start));
  [view.from, view.to] = [start, start + span];
  if (remember) keepHash();
  redraw();
}

const reset = () => show(-0.5, size() - 0.5);
const whole = () => view.to - view.from >= size() - 1e-6;
const places = () => [Math.max(0, Math.ceil(view.from)), Math.min(size() - 1, Math.floor(view.to))];
const ends = () => places().map((place) => data.row[place]);

function zoom(factor, about = (view.from + view.to) / 2) {
  const span = Math.min(size(), Math.max(5, (view.to - view.from) * factor));
  const share = (about - view.from) / (view.to - view.from);
  show(about - share * span, about + (1 - share) * span);
}

function pan(share) {
  const step = share * (view.to - view.from);
  show(view.from + step, view.to + step);
}

function keepHash() {
  const [a, b] = ends();
  const path = whole() ? location.pathname + location.search : `#rows=${a}-${b}`;
  try { history.replaceState(null, "", path); } catch { /* a page inside another may not */ }
}

function readHash() {
  const found = /^#rows=(\d+)-(\d+)$/.exec(location.hash);
  if (!found) return false;
  const [a, b] = [Number(found[1]), Number(found[2])].map((row) => placeOf(row, data.row));
  show(Math.min(a, b) - 0.5, Math.max(a, b) + 0.5, false);
  return true;
}

function redraw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; drawAll(false); });
}

// Charts in the window at once, the others a moment after the last change (`all`: at once, too).
function drawAll(all) {
  root.dataset.settled = "no";
  clearTimeout(later);
  for (const chart of charts) {
    chart.stale = !all && !chart.seen();
    if (!chart.stale) chart.draw();
  }
  later = setTimeout(drawRest, 150);
  if (all) drawRest();
  overview.draw();
  markAll();
  const [a, b] = ends();
  let text = `Rows ${a} to ${b}`;
  if (data.time) {
    const [start, end] = places().map((i) => timeWords(data.time[i]));
    text += ` · ${start} to ${end}${meta.zoned ? " UTC" : ""}`;
  }
  document.getElementById("range").textContent = text;
  root.dataset.view = `${a}-${b}`;
  root.dataset.charts = charts.length;
}

function drawRest() {
  clearTimeout(later);
  for (const chart of charts) if (chart.stale) { chart.draw(); chart.stale = false; }
  root.dataset.settled = "yes";
}

function markAll() {
  for (const chart of charts) chart.mark();
}

function measureAll() {
  readColours();
  for (const chart of charts) chart.measure();
  overview.measure();
  drawAll(true);
}

const overview = {
  canvas: document.getElementById("overview"),
  measure() {
    this.width = this.canvas.clientWidth || 300;
    this.ratio = window.devicePixelRatio || 1;
    this.canvas.width = this.width * this.ratio;
    this.canvas.height = 34 * this.ratio;
  },
  x(place) { return ((place + 0.5) / size()) * this.width; },
  place(x) { return (x / this.width) * size() - 0.5; },
  draw() {
    const pen = this.canvas.getContext("2d"), w = Math.floor(this.width), n = size();
    pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    pen.clearRect(0, 0, w, 34);
    pen.fillStyle = colours.card;
    pen.fillRect(0, 8, w, 26);
    const values = data["value.0"], { low, high } = decimate(values, -0.5, n - 0.5, w);
    let [least, most] = [Infinity, -Infinity];
    for (let p = 0; p < w; p++) { if (low[p] < least) least = low[p]; if (high[p] > most) most = high[p]; }
    const y = (v) => 32 - (22 * (v - least)) / (most - least || 1);
    pen.fillStyle = colours.soft;
    for (let p = 0; p < w; p++) {
      if (low[p] === low[p]) pen.fillRect(p, y(high[p]), 1, Math.max(1.2, y(low[p]) - y(high[p])));
    }
    pen.fillStyle = colours.out;
    for (const [a, b] of meta.episodes) pen.fillRect(this.x(a - 0.5), 1, Math.max(2, this.x(b) - this.x(a)), 5);
    pen.fillStyle = colours.pick;
    const [a, b] = [this.x(view.from), this.x(view.to)];
    pen.fillRect(a, 8, Math.max(2, b - a), 26);
    pen.strokeStyle = colours.mean;
    pen.lineWidth = 2;
    pen.strokeRect(a + 1, 9, Math.max(2, b - a) - 2, 24);
  },
};

function tip(chart, x, y) {
  const box = document.getElementById("tip");
  const i = Math.round(view.cursor);
  const lines = chart.tell(i);
  box.replaceChildren(element("b", "", `Row ${data.row[i]}${data.time ? " · " + timeWords(data.time[i]) : ""}`));
  for (const [name, text] of lines) {
    const row = element("span", "", name);
    row.append(element("em", "", text));
    box.append(row);
  }
  box.hidden = false;
  const { width, height } = box.getBoundingClientRect();
  box.style.left = `${Math.max(4, x + 14 + width < root.clientWidth ? x + 14 : x - width - 14)}px`;
  box.style.top = `${Math.max(4, Math.min(innerHeight - height - 4, y + 14))}px`;
}

function hideTip() {
  document.getElementById("tip").hidden = true;
  view.cursor = null;
  markAll();
}

function point(chart, place, x, y) {
  view.cursor = Math.max(0, Math.min(size() - 1, Math.round(place)));
  tip(chart, x, y);
  markAll();
}
