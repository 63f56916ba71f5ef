"use strict";
const SPANS = 720, AHEAD = 24, AGAIN = 30000, OFTEN = 250;
const byId = (id) => document.getElementById(id);
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const make = (tag, text, kind) => {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (kind) element.className = kind;
  return element;
};
const short = (v) => (v === null || v === undefined ? "–" : Number(v.toPrecision(4)).toString());
const percent = (v) => (v === null || v === undefined ? "–" : `${(100 * v).toFixed(0)} %`);
const chosen = () => new URLSearchParams(location.hash.slice(1)).get("key") || "";
const of = (path, key = chosen()) => (key ? `${path}${path.includes("?") ? "&" : "?"}key=${encodeURIComponent(key)}` : path);
let stop = new AbortController(), found = null;
let rows = [], past = [], about = { columns: [] }, ahead = null, charts = [], drawn = "", pending = false, pause = 500, asked = 0, shownAt = 0, whole = false;

const say = (text, bad) => { byId("state").textContent = text; byId("state").className = bad ? "bad" : ""; };
const headers = () => {
  const token = sessionStorage.getItem("token");
  return token ? { authorization: `Bearer ${token}` } : {};
};

// A stream of events by fetch: unlike EventSource, it can send a token that is not in the address.
async function listen() {
  const mine = stop;
  try {
    const answer = await fetch(of("events"), { headers: headers(), cache: "no-store", signal: mine.signal });
    if (answer.status === 401) { byId("ask").hidden = false; say("A token is needed.", true); return; }
    if (!answer.ok) throw new Error(answer.statusText);
    byId("ask").hidden = true;
    pause = 500;
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      text += value;
      const parts = text.split("\n\n");
      text = parts.pop();
      parts.forEach(take);
    }
  } catch (error) { /* it comes back */ }
  if (mine !== stop) return; // another stream is listened to
  say("The connection is lost; trying again …", true);
  setTimeout(listen, pause);
  pause = Math.min(2 * pause, AGAIN);
}

function take(message) {
  const event = /^event: (.*)$/m.exec(message), data = /^data: (.*)$/m.exec(message);
  if (!event || !data) return;
  const told = JSON.parse(data[1]);
  if (event[1] === "all") { rows = []; past = []; }
  if (told.rows) rows.push(...told.rows);
  if (told.past && told.past.length) { // rows that are kept as spans from now on
    past = past.concat(told.past).slice(-SPANS);
    rows = rows.filter((row) => row.row > past[past.length - 1].last);
  }
  if (told.about) about = told.about;
  if (told.streams) showStreams(told.streams);
  if (event[1] === "begin") { again(); return; }
  if (told.alarms) showAlarms(told.alarms);
  else if (told.rows && told.rows.some((row) => row.alarms.length)) refreshAlarms();
  soon();
}

// Draw a few times a second at most, and not at all while nobody looks.
function soon() {
  if (pending) return;
  pending = true;
  setTimeout(() => requestAnimationFrame(show), Math.max(0, shownAt + OFTEN - Date.now()));
}

let alarmsAsked = 0;
const refreshAlarms = async () => {
  if (Date.now() - alarmsAsked < 1000) return;
  alarmsAsked = Date.now();
  const answer = await fetch("api/alarms", { headers: headers() });
  if (answer.ok) showAlarms(await answer.json());
};

// Listen anew: to another stream, or because the run has begun.
function again() {
  stop.abort();
  stop = new AbortController();
  rows = []; past = []; ahead = null; asked = 0; drawn = "";
  byId("charts").replaceChildren();
  byId("scores").hidden = true;
  listen();
}

const choose = (key) => { location.hash = new URLSearchParams({ key }).toString(); };
const look = (key) => { choose(key); byId("shown").scrollIntoView({ behavior: "smooth" }); };
const ago = (moment) => {
  if (!moment) return "–";
  const past = Math.max(0, Date.now() / 1000 - moment);
  return past < 90 ? `${past.toFixed(0)} s ago` : past < 5400 ? `${(past / 60).toFixed(0)} min ago` : `${(past / 3600).toFixed(0)} h ago`;
};

async function showStreams(told) {
  const find = byId("find").value;
  if (find) {
    const answer = await fetch(`api/streams?most=50&find=${encodeURIComponent(find)}`, { headers: headers() });
    if (!answer.ok || find !== byId("find").value) return;
    told = await answer.json();
  }
  found = told;
  byId("fleet").hidden = false;
  const more = told.found > told.streams.length ? `; ${told.streams.length} of ${told.found} are shown, the most troubled first` : "";
  byId("count").textContent = `${told.total} streams, ${told.rows} rows; ${told.alarmed} with an alarm, ${told.failing} failing${more}.`;
  if (!chosen() && told.streams.length) { choose(told.streams[0].key); return; }
  fill(byId("streams").tBodies[0], told.streams, () => {
    const row = make("tr"), name = make("td");
    name.append(make("button"));
    row.append(name, make("td", "", "bad"), ...Array.from({ length: 5 }, () => make("td", "", "n")));
    return row;
  }, (row, stream) => {
    row.dataset.key = stream.key;
    if (stream.key === chosen()) row.setAttribute("aria-current", "true"); else row.removeAttribute("aria-current");
    const words = stream.alarms.join(" ") || (stream.failure > 0.5 ? "a sensor fails" : "");
    const cells = [words, String(stream.rows), String(stream.episodes), percent(stream.error_of_last_value), percent(stream.coverage), ago(stream.seen)];
    put(row.cells[0].firstChild, stream.key);
    cells.forEach((cell, i) => put(row.cells[i + 1], cell));
  });
}

// What is there is changed, not made anew: a row that is being clicked at stays where it is.
const put = (element, text) => { if (element.textContent !== text) element.textContent = text; };
function fill(host, items, begin, change) {
  while (host.children.length > items.length) host.lastChild.remove();
  while (host.children.length < items.length) host.append(begin());
  items.forEach((item, i) => change(host.children[i], item));
}

function showAlarms(alarms) {
  byId("quiet").hidden = alarms.length > 0;
  fill(byId("alarms"), alarms, () => {
    const item = make("li"), name = make("b");
    name.append(make("button"));
    item.append(name, make("span"), make("small"), make("button", "Acknowledge"));
    return item;
  }, (item, alarm) => {
    const [name, words, small, button] = item.children;
    item.alarm = alarm;
    item.className = alarm.note ? "seen" : "";
    name.hidden = !alarm.key;
    put(name.firstChild, alarm.key || "");
    put(words, alarm.sentence);
    const when = alarm.time === null ? `row ${alarm.row}` : alarm.time;
    put(small, `since ${when}, ${alarm.rows} rows${alarm.note ? `; seen: ${alarm.note.text || "without a note"}` : ""}`);
    button.hidden = Boolean(alarm.note);
  });
}

async function acknowledge(alarm) {
  const note = prompt("A note for the others (or nothing):", "");
  if (note === null) return;
  const body = JSON.stringify({ sentence: alarm.sentence, note, key: alarm.key || "" });
  const answer = await fetch("api/notes", { method: "POST", headers: { "content-type": "application/json", ...headers() }, body });
  if (!answer.ok) say((await answer.json()).error, true);
}

async function lookAhead() {
  if (Date.now() - asked < 5000) return;
  asked = Date.now();
  const key = chosen();
  const answer = await fetch(of(`api/forecast?horizon=${AHEAD}`, key), { headers: headers() });
  const told = answer.ok ? await answer.json() : null;
  if (key !== chosen()) return;
  ahead = told;
  show();
}

const named = (column, part) => (part === "value" ? column : `${column}.${part}`);
const seconds = (time) => (typeof time === "string" ? Date.parse(`${time}Z`) / 1000 : time);

// The forecast without the rows that have come since it was made.
function coming() {
  const passed = ahead ? rows[rows.length - 1].row - ahead.row : -1;
  if (passed < 0 || passed >= AHEAD) return null;
  const left = Object.fromEntries(["time", "mean", "low", "high"].map((part) => [part, ahead[part].slice(passed)]));
  return { ...left, row: ahead.row + passed };
}

// Times of the spans, the rows and what is ahead: the same for all columns. A span has two points, its least and its greatest.
function axis() {
  const timed = rows.length > 0 && rows.every((row) => row.time !== null), next = coming();
  const x = [], spans = whole ? past : [];
  spans.forEach((span) => x.push(timed ? seconds(span.time) : span.row, timed ? seconds(span.end) : span.last));
  rows.forEach((row) => { if (row.at === undefined) row.at = seconds(row.time); x.push(timed ? row.at : row.row); });
  if (next) next.time.forEach((time, i) => x.push(timed ? seconds(time) : next.row + i + 1));
  return { timed, next, x, spans };
}

function series(column, k, { x, next, spans }) {
  const places = { low: [2, 2], high: [3, 3], mean: [4, 4], value: [0, 1] };
  const earlier = (part) => spans.flatMap((span) => { const known = span.columns[column]; return known && places[part] ? places[part].map((i) => known[i]) : [null, null]; });
  const after = (part) => (next ? next[part].map((row) => row[k]) : []);
  const nothing = Array(x.length - (next ? next.mean.length : 0)).fill(null), none = next ? Array(next.mean.length).fill(null) : [];
  const before = (part) => { const name = named(column, part); return earlier(part).concat(rows.map((row) => row[name]), none); };
  return [x, ...["low", "high", "mean", "value"].map(before), ...["low", "high", "mean"].map((part) => nothing.concat(after(part))), spans.length ? nothing.concat(after("mean").fill(null)) : before("filled")];
}

// Dates in the order of their digits, and hours up to 24: for each step of the axis, what a tick says, and what it adds when the year, the day or the minute is another one.
const DATE = "\n{YYYY}-{MM}-{DD}";
const ticks = (step, said, more) => [step, said, more, null, more, null, null, null, 1];
const CLOCK = [ticks(31536000, "{YYYY}", null), ticks(2419200, "{YYYY}-{MM}", null), ticks(86400, "{MM}-{DD}", "\n{YYYY}"), ticks(60, "{HH}:{mm}", DATE), ticks(1, "{HH}:{mm}:{ss}", DATE)];

// The first charts are made at once, others when they are first seen; drawn again only while they are.
const FIRST = 8;
const seen = new IntersectionObserver((entries) => {
  entries.forEach((entry) => { const own = charts.find(({ plot }) => plot === entry.target); if (own) own.visible = entry.isIntersecting; });
  soon();
}, { rootMargin: "200px" });

function place(column, k) {
  const host = make("figure", undefined, "chart");
  const unit = about.units && about.units[column];
  host.append(make("figcaption", unit && !column.includes(unit) ? `${column} [${unit}]` : column));
  const plot = make("div", undefined, "plot");
  host.append(plot);
  byId("charts").append(host);
  seen.observe(plot);
  return { plot, column, drawing: null, visible: k < FIRST };
}

// A strip above the rows at which the sensor fails.
function strip(u, failing) {
  const width = Math.max(2, u.bbox.width / u.data[0].length);
  u.ctx.fillStyle = css("--out");
  failing.forEach((x) => u.ctx.fillRect(u.valToPos(x, "x", true) - width / 2, u.bbox.top, width, 5 * devicePixelRatio));
}

function draw(own, k, at) {
  const { plot, column } = own, data = series(column, k, at);
  own.failing = rows.flatMap((row, i) => (row[named(column, "failure")] > 0.5 ? [at.x[2 * at.spans.length + i]] : []));
  if (own.drawing) { own.drawing.setData(data); return; }
  const { timed } = at;
  const line = (label, colour, width = 1.5) => ({ label, stroke: css(colour), width, points: { show: false } });
  const scale = { stroke: css("--soft"), grid: { stroke: css("--line"), width: 1 }, ticks: { stroke: css("--line") } };
  const edge = (label) => ({ label, stroke: "transparent", points: { show: false } });
  own.drawing = new uPlot({
    width: plot.clientWidth || 600, height: 190, legend: { show: false }, cursor: { y: false },
    tzDate: (moment) => uPlot.tzDate(new Date(1000 * moment), "UTC"),
    scales: { x: { time: timed } }, axes: [timed ? { ...scale, values: CLOCK, space: 70 } : scale, { ...scale, size: 64 }],
    series: [{}, edge("low"), edge("high"), line("expected", "--mean"), line("value", "--seen", 1),
      edge("next low"), edge("next high"), line("next", "--next"),
      { label: "filled", stroke: css("--mean"), paths: () => null, points: { show: true, size: 4 } }],
    hooks: { draw: [(u) => strip(u, own.failing)] },
    bands: [{ series: [2, 1], fill: css("--band") }, { series: [6, 5], fill: css("--next-band") }],
  }, data, plot);
}

function show() {
  pending = false;
  shownAt = Date.now();
  byId("shown").hidden = !about.key;
  byId("shown").textContent = about.key || "";
  if (!rows.length) { say(about.key ? "No row of this stream has come since the start." : about.keyed && found ? "Choose a stream." : "Waiting for the first rows."); return; }
  const last = rows[rows.length - 1];
  const better = about.scores.share ? `, error ${percent(about.scores.share)} of the last value's` : "";
  say(`${about.rows} rows, the last ${last.time === null ? `is row ${last.row}` : `of ${last.time}`}${better}.`);
  byId("scores").hidden = false;
  fill(byId("scores").tBodies[0], about.columns, () => {
    const row = make("tr");
    row.append(make("td"), ...Array.from({ length: 5 }, () => make("td", "", "n")));
    return row;
  }, (row, name) => {
    const fared = (about.scores.columns || {})[name] || {}, value = last[name];
    const out = value !== null && (value < last[`${name}.low`] || value > last[`${name}.high`]);
    row.className = out ? "far" : "";
    const cells = [name, short(value), short(last[`${name}.mean`]), short(fared.rmse), short(fared.persistence_rmse), percent(fared.coverage)];
    cells.forEach((cell, i) => put(row.cells[i], cell));
  });
  const shape = JSON.stringify([about.key, about.columns]);
  if (shape !== drawn) { seen.disconnect(); byId("charts").replaceChildren(); charts = about.columns.map(place); drawn = shape; }
  byId("whole").hidden = !past.length;
  byId("whole").textContent = whole ? "Show the last rows" : "Show more of the past";
  const at = axis();
  charts.forEach((own, k) => { if (own.visible) draw(own, k, at); });
  document.documentElement.dataset.rows = String(last.row);
  lookAhead();
}

addEventListener("hashchange", again);
byId("find").addEventListener("input", () => { if (found) showStreams(found); });
addEventListener("resize", () => charts.forEach(({ drawing, plot }) => { if (drawing) drawing.setSize({ width: plot.clientWidth, height: 190 }); }));
byId("whole").addEventListener("click", () => { whole = !whole; show(); });
byId("streams").addEventListener("click", (event) => { const row = event.target.closest("tr[data-key]"); if (row) look(row.dataset.key); });
byId("alarms").addEventListener("click", (event) => {
  const button = event.target.closest("button"), item = event.target.closest("li");
  if (button && item) { if (button.parentElement === item) acknowledge(item.alarm); else look(item.alarm.key); }
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { drawn = ""; show(); });
byId("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", new FormData(event.target).get("token"));
  listen();
});
listen();
