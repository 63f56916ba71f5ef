// The view that all charts share: which rows are shown, where the cursor is, and what moves them.
const view = { from: 0, to: 1, cursor: null, held: null };
const root = document.documentElement, host = (id) => document.getElementById(id);
const LEAST = 5;  // rows in a view
let printing = false, waiting = false, later = 0, overview = null;

const bounds = () => [data.row[0] - 0.5, data.row[data.row.length - 1] + 0.5];
const whole = () => view.from <= bounds()[0] + 1e-6 && view.to >= bounds()[1] - 1e-6;
const reset = () => show(...bounds());
const places = () => [search(data.row, view.from), Math.max(0, search(data.row, view.to) - 1)];
const ends = () => places().map((i) => data.row[i]);

function nearest(row) {
  const b = Math.min(data.row.length - 1, search(data.row, row)), a = Math.max(0, b - 1);
  return row - data.row[a] < data.row[b] - row ? data.row[a] : data.row[b];
}

function show(from, to, remember = true) {
  const [first, last] = bounds(), span = Math.max(Math.min(last - first, LEAST), Math.min(last - first, to - from));
  view.from = Math.max(first, Math.min(last - span, (from + to) / 2 - span / 2));
  view.to = view.from + span;
  if (remember) keepHash();
  redraw();
}

function zoom(factor, about = (view.from + view.to) / 2) {
  const span = Math.max(LEAST, (view.to - view.from) * factor), share = (about - view.from) / (view.to - view.from);
  show(about - share * span, about + (1 - share) * span);
}

function pan(share) {
  const step = share * (view.to - view.from);
  show(view.from + step, view.to + step);
}

function keepHash() {
  const path = whole() ? location.pathname + location.search : `#rows=${ends().join("-")}`;
  try { history.replaceState(null, "", path); } catch { /* a page inside another may not */ }
}

function readHash() {
  const found = /^#rows=(\d+)-(\d+)$/.exec(location.hash);
  if (!found) return;
  const rows = [Number(found[1]), Number(found[2])];
  show(Math.min(...rows) - 0.5, Math.max(...rows) + 0.5, false);
}

function redraw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; drawAll(); });
}

// Charts in the window at once, the others one by one a moment after the last change.
function drawAll(all = false) {
  root.dataset.settled = "no";
  clearTimeout(later);
  for (const chart of charts) chart.stale = true;
  for (const chart of charts) if (all || chart.near()) { chart.draw(); chart.stale = false; }
  later = setTimeout(drawRest, 150);
  markView();
  const [a, b] = ends();
  const [from, to] = places(), last = meta.rows - 1;
  const named = (i) => data.time ? timeWords(data.time[i]) : data.row[i];
  let text = from > last ? "Forecast" : `Rows ${a} to ${data.row[Math.min(to, last)]}`;
  if (data.time) text += ` · ${named(from)} to ${named(from > last ? to : Math.min(to, last))}${meta.zoned ? " UTC" : ""}`;
  if (from <= last && to > last) text += ` · forecast to ${named(to)}`;
  host("range").textContent = text;
  root.dataset.view = `${a}-${b}`;
  root.dataset.charts = charts.length;
}

// For some 30 ms at a time, so that the page answers meanwhile.
function drawRest() {
  const begun = performance.now();
  for (const chart of charts) {
    if (!chart.stale) continue;
    if (performance.now() - begun > 30) return void (later = setTimeout(drawRest));
    chart.draw();
    chart.stale = false;
  }
  root.dataset.settled = "yes";
}

function markView() {
  const [first, last] = bounds();
  const [a, b] = [view.from, view.to].map((row) => (row - first) / (last - first) * overview.width);
  overview.u.setSelect({ left: a, width: Math.max(2, b - a), top: 8, height: 26 }, false);
}

// After a change of width, of colours, or to paper and back.
function rebuild() {
  readColours();
  for (const chart of [overview, ...charts]) chart.stands = false;
  overview.draw();
  drawAll(printing);
}

function tip(chart, x, y) {
  const box = host("tip"), i = search(data.row, view.cursor);
  const when = data.time ? ` · ${timeWords(data.time[i])}` : "", next = i >= meta.rows ? " · forecast" : "";
  box.replaceChildren(element("b", "", `Row ${data.row[i]}${when}${next}`));
  for (const [name, text] of chart.tell(view.cursor)) {
    const row = element("span", "", name);
    row.append(element("em", "", text));
    box.append(row);
  }
  box.hidden = false;
  const { width, height } = box.getBoundingClientRect();
  box.style.left = `${Math.max(4, x + 14 + width < root.clientWidth ? x + 14 : x - width - 14)}px`;
  box.style.top = `${Math.max(4, Math.min(innerHeight - height - 4, y + 14))}px`;
}

function hideTip(chart) {
  host("tip").hidden = true;
  view.cursor = null;
  chart.u?.setCursor({ left: -10, top: -10 }, false, true);
}

function point(chart, row, x, y) {
  view.cursor = nearest(Math.max(view.from, Math.min(view.to, row)));
  chart.u.setCursor({ left: chart.u.valToPos(view.cursor, "x"), top: 10 }, false, true);
  tip(chart, x, y);
}

// Mouse, touch and keyboard. A drag with the mouse is uPlot's; with a finger or shift it moves the rows.
function handle(chart) {
  const plot = chart.plot, touches = new Map();
  let grip = null;
  const gap = () => Math.abs([...touches.values()].reduce((a, b) => a - b));

  plot.addEventListener("pointerdown", (event) => {
    view.held = chart;
    if (event.pointerType !== "touch" && !event.shiftKey) return;
    plot.setPointerCapture(event.pointerId);
    touches.set(event.pointerId, event.clientX);
    grip = { x: event.clientX, from: view.from, to: view.to, gap: touches.size === 2 ? gap() : 0 };
  });
  plot.addEventListener("pointermove", (event) => {
    if (touches.has(event.pointerId)) touches.set(event.pointerId, event.clientX);
    if (grip?.gap && touches.size === 2) {
      const half = (grip.to - grip.from) * (grip.gap / Math.max(8, gap())) / 2, middle = (grip.from + grip.to) / 2;
      return show(middle - half, middle + half);
    }
    if (grip && Math.abs(event.clientX - grip.x) > 4) {
      const shift = ((grip.x - event.clientX) / chart.shown.width) * (grip.to - grip.from);
      show(grip.from + shift, grip.to + shift);
    }
    point(chart, chart.rowAt(event), event.clientX, event.clientY);
  });
  for (const end of ["pointerup", "pointercancel"]) {
    plot.addEventListener(end, (event) => { touches.delete(event.pointerId); grip = null; });
  }
  plot.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && hideTip(chart));
  plot.addEventListener("blur", () => hideTip(chart));
  plot.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(1.002 ** event.deltaY, chart.rowAt(event));
  }, { passive: false });
  plot.addEventListener("keydown", (event) => read(chart, event));
}

// Arrow keys move the cursor of the chart in focus, with shift the view.
function read(chart, event) {
  const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!way && event.key !== "Escape") return;
  event.preventDefault();
  if (event.key === "Escape") return hideTip(chart);
  if (event.shiftKey) return pan(way / 4);
  const step = Math.max(1, Math.round((view.to - view.from) / chart.shown.width));
  const row = (view.cursor ?? Math.round((view.from + view.to) / 2) - way) + way * step;
  if (row < view.from || row > view.to) pan(way / 4);
  const box = chart.u.over.getBoundingClientRect();
  point(chart, row, box.left + chart.u.valToPos(row, "x"), box.top + 20);
}

const ACTS = {
  in: () => zoom(0.5, view.cursor ?? undefined), out: () => zoom(2, view.cursor ?? undefined),
  left: () => pan(-0.5), right: () => pan(0.5), reset,
};

function handleAll() {
  charts.forEach(handle);
  for (const button of document.querySelectorAll("[data-act]")) {
    button.addEventListener("click", ACTS[button.dataset.act]);
  }
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("select, input")) return;
    const act = { "+": "in", "=": "in", "-": "out", "0": "reset" }[event.key];
    if (act) { event.preventDefault(); ACTS[act](); }
  });
  choosePart(overview.plot);
  for (const link of document.querySelectorAll("[data-episode]")) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      const [a, b] = meta.episodes[Number(link.dataset.episode)], room = Math.max(20, (b - a) / 2);
      show(a - room, b + room);
      host("stream").scrollIntoView();
    });
  }
  addEventListener("hashchange", readHash);
}

// A drag in the overview chooses what is shown, a click moves it there.
function choosePart(strip) {
  const far = (a, b) => Math.abs(a - b) > (bounds()[1] - bounds()[0]) / 200;
  let start = null;
  strip.addEventListener("pointerdown", (event) => { start = overview.rowAt(event); strip.setPointerCapture(event.pointerId); });
  strip.addEventListener("pointermove", (event) => {
    const end = overview.rowAt(event);
    if (start !== null && far(start, end)) show(Math.min(start, end), Math.max(start, end));
  });
  strip.addEventListener("pointerup", (event) => {
    const end = overview.rowAt(event), half = (view.to - view.from) / 2;
    if (!far(start, end)) show(end - half, end + half);
    start = null;
  });
}
