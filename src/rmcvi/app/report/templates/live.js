"use strict";
const MOST = 3600, AHEAD = 24, AGAIN = 30000;
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
let rows = [], about = { columns: [] }, ahead = null, charts = [], drawn = "", pending = false, pause = 500, asked = 0;

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
  if (event[1] === "all") rows = [];
  if (told.rows) rows = rows.concat(told.rows).slice(-MOST);
  if (told.about) about = told.about;
  if (told.streams) showStreams(told.streams);
  if (event[1] === "begin") { again(); return; }
  if (told.alarms) showAlarms(told.alarms);
  else if (told.rows && told.rows.some((row) => row.alarms.length)) refreshAlarms();
  if (!pending) { pending = true; requestAnimationFrame(show); }
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
  rows = []; ahead = null; asked = 0; drawn = "";
  byId("charts").replaceChildren();
  byId("scores").hidden = true;
  listen();
}

const choose = (key) => { location.hash = new URLSearchParams({ key }).toString(); };
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
  byId("streams").tBodies[0].replaceChildren(...told.streams.map((stream) => {
    const row = make("tr"), name = make("td"), button = make("button", stream.key);
    name.append(button);
    row.onclick = () => choose(stream.key);
    if (stream.key === chosen()) row.setAttribute("aria-current", "true");
    const words = stream.alarms.join(" ") || (stream.failure > 0.5 ? "a sensor fails" : "");
    row.append(name, make("td", words, "bad"), ...[String(stream.rows), String(stream.alarm_rows), percent(stream.error_of_last_value),
      percent(stream.coverage), ago(stream.seen)].map((cell) => make("td", cell, "n")));
    return row;
  }));
}

function showAlarms(alarms) {
  byId("quiet").hidden = alarms.length > 0;
  byId("alarms").replaceChildren(...alarms.map((alarm) => {
    const item = make("li", undefined, alarm.note ? "seen" : "");
    if (alarm.key) {
      const name = make("b"), button = make("button", alarm.key);
      button.onclick = () => choose(alarm.key);
      name.append(button);
      item.append(name);
    }
    item.append(alarm.sentence);
    const when = alarm.time === null ? `row ${alarm.row}` : alarm.time;
    item.append(make("small", `since ${when}, ${alarm.rows} rows${alarm.note ? `; seen: ${alarm.note.text || "without a note"}` : ""}`));
    if (!alarm.note) {
      const button = make("button", "Acknowledge");
      button.onclick = async () => {
        const note = prompt("A note for the others (or nothing):", "");
        if (note === null) return;
        const body = JSON.stringify({ sentence: alarm.sentence, note, key: alarm.key || "" });
        const answer = await fetch("api/notes", { method: "POST", headers: { "content-type": "application/json", ...headers() }, body });
        if (!answer.ok) say((await answer.json()).error, true);
      };
      item.append(button);
    }
    return item;
  }));
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

function series(column, k) {
  const timed = rows.length > 0 && rows.every((row) => row.time !== null);
  const next = coming();
  const pick = (part) => rows.map((row) => row[named(column, part)]);
  const after = (part) => (next ? next[part].map((row) => row[k]) : []);
  const none = (list) => list.map(() => null);
  const x = rows.map((row) => (timed ? seconds(row.time) : row.row))
    .concat(next ? next.time.map((time, i) => (timed ? seconds(time) : next.row + i + 1)) : []);
  const past = ["low", "high", "mean", "value"].map((part) => pick(part).concat(none(after("mean"))));
  const later = ["low", "high", "mean"].map((part) => none(rows).concat(after(part)));
  return { timed, data: [x, ...past, ...later] };
}

function chart(column, k) {
  const host = make("figure", undefined, "chart");
  const unit = about.units && about.units[column];
  host.append(make("figcaption", unit && !column.includes(unit) ? `${column} [${unit}]` : column));
  const plot = make("div", undefined, "plot");
  host.append(plot);
  byId("charts").append(host);
  const { timed, data } = series(column, k);
  const line = (label, colour, width = 1.5) => ({ label, stroke: css(colour), width, points: { show: false } });
  const axis = { stroke: css("--soft"), grid: { stroke: css("--line"), width: 1 }, ticks: { stroke: css("--line") } };
  const edge = (label) => ({ label, stroke: "transparent", points: { show: false } });
  const drawing = new uPlot({
    width: plot.clientWidth || 600, height: 190, legend: { show: false }, cursor: { y: false },
    tzDate: (moment) => uPlot.tzDate(new Date(1000 * moment), "UTC"),
    scales: { x: { time: timed } }, axes: [axis, { ...axis, size: 64 }],
    series: [{}, edge("low"), edge("high"), line("expected", "--mean"), line("value", "--seen", 1),
      edge("next low"), edge("next high"), line("next", "--next")],
    bands: [{ series: [2, 1], fill: css("--band") }, { series: [6, 5], fill: css("--next-band") }],
  }, data, plot);
  return { drawing, plot };
}

function show() {
  pending = false;
  byId("shown").hidden = !about.key;
  byId("shown").textContent = about.key || "";
  if (!rows.length) { say(about.key ? "No row of this stream has come since the start." : about.keyed && found ? "Choose a stream." : "Waiting for the first rows."); return; }
  const last = rows[rows.length - 1];
  const better = about.scores.share ? `, error ${percent(about.scores.share)} of the last value's` : "";
  say(`${about.rows} rows, the last ${last.time === null ? `is row ${last.row}` : `of ${last.time}`}${better}.`);
  byId("scores").hidden = false;
  byId("scores").tBodies[0].replaceChildren(...about.columns.map((name) => {
    const fared = (about.scores.columns || {})[name] || {}, value = last[name], row = make("tr");
    const out = value !== null && (value < last[`${name}.low`] || value > last[`${name}.high`]);
    row.className = out ? "far" : "";
    const cells = [short(value), short(last[`${name}.mean`]), short(fared.rmse), short(fared.persistence_rmse),
      percent(fared.coverage)];
    row.append(make("td", name), ...cells.map((cell) => make("td", cell, "n")));
    return row;
  }));
  const shape = JSON.stringify([about.key, about.columns]);
  if (shape !== drawn) { byId("charts").replaceChildren(); charts = about.columns.map(chart); drawn = shape; }
  else about.columns.forEach((column, k) => charts[k].drawing.setData(series(column, k).data));
  document.documentElement.dataset.rows = String(last.row);
  lookAhead();
}

addEventListener("hashchange", again);
byId("find").addEventListener("input", () => { if (found) showStreams(found); });
addEventListener("resize", () => charts.forEach(({ drawing, plot }) => drawing.setSize({ width: plot.clientWidth, height: 190 })));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { drawn = ""; show(); });
byId("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", new FormData(event.target).get("token"));
  listen();
});
listen();
