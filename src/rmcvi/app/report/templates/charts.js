// The charts of the page, one entry each: where, what it is called, how high, and of which parts.
// A part draws `data` (a number per row) or a curve of `meta` (see parts.js); a new chart is a new entry.
const pick = host("pick");
const chosen = () => meta.curves.lines[pick ? Number(pick.value) : 0];
const some = (values) => values.some((v) => v !== null);
const about = (k, ...names) => names.map((name) => data[`${name}.${k}`]);

const columns = () => meta.columns.map(({ name, unit }, k) => {
  const [value, mean, low, high, filled] = about(k, "value", "mean", "low", "high", "filled");
  const [next, least, most] = about(k, "next_mean", "next_low", "next_high");
  const outside = value.map((v, i) => (v < low[i] || v > high[i] ? v : NaN));
  const absent = { series: [], tell: (i) => (i < meta.rows && !known(value[i]) ? [["not seen", ""]] : []) };
  const forecast = () => [
    band("forecast band", least, most, "next-band"), line("forecast", next, "next", { width: 2, dash: [5, 3] }),
  ];
  return {
    host: "columns", title: name, unit, height: 180, parts: () => [
      absent, gaps(value, filled), band("band", low, high),
      line("seen", value, "seen", { width: 1, dots: true, fade: 0.6 }), line("predicted", mean, "mean", { pick: "mean" }),
      marks(outside, "out", "ring", (i) => (known(outside[i]) ? [["outside the band", ""]] : [])),
      ...(next ? forecast() : []),
    ],
  };
});

const strips = { anomaly: "Anomaly score", failure: "Evidence of failure" };
const sensors = () => Object.entries(strips).flatMap(([part, title]) => {
  const lanes = meta.columns.map(({ name }, k) => [name, data[`${part}.${k}`]]).filter(([, values]) => values);
  return lanes.length ? [{
    host: "strip", title, height: TOP + LANE * lanes.length + BOTTOM, lanes: true,
    parts: () => lanes.map(([name, values], k) => cells(name, values, k)),
  }] : [];
});

const scores = () => [
  {
    host: "rmse", title: "RMSE so far", unit: () => chosen().unit, height: 200, x: meta.curves.at, picked: true,
    keys: [["mean", "learner"], ["rival", "persistence"]],
    parts: () => [curve("learner", chosen().learner, "mean"), curve("persistence", chosen().persistence, "rival", [7, 4])],
  },
  {
    host: "coverage", title: `Share inside the band, last ${meta.window} rows`, height: 160, x: meta.curves.at,
    least: 0, most: 1.02, picked: true, keys: [["mean", "found"], ["level", "right"]],
    parts: () => [
      curve("right", meta.curves.at.map(() => meta.level), "level", [6, 4]), curve("inside", chosen().coverage, "mean"),
    ],
  },
];

const learning = () => [
  some(meta.curves.log_score) && {
    host: "progress", title: `Log score of a row, mean of the last ${meta.window}`, unit: "nats", height: 140,
    x: meta.curves.at, parts: () => [curve("log score", meta.curves.log_score, "mean")],
  },
  data.elbo && {
    host: "progress", title: "ELBO / t", unit: "nats per row", height: 140,
    parts: () => [line("ELBO / t", data.elbo, "mean")],
  },
  data.ess && {
    host: "progress", title: "Effective sample size", unit: "particles", height: 140, least: 0,
    parts: () => [line("Effective sample size", data.ess, "mean")],
  },
  ...meta.parameters.map(({ name, at, value }) => (
    { host: "parameters", title: name, height: 120, x: at, parts: () => [curve(name, value, "mean")] })),
].filter(Boolean);

const states = () => meta.states.map((name, k) => {
  const [mean, spread] = about(k, "state", "spread");
  const [low, high] = [-meta.width, meta.width].map((z) => mean.map((m, i) => m + z * spread[i]));
  const parts = () => [band("band", low, high), line("mean", mean, "mean")];
  return { host: "hidden", title: `state ${name}`, height: 120, parts };
});

// The whole run with its alarms, under the buttons.
const run = () => ({
  host: "overview", title: "The whole run", height: 34, bare: true, parts: () => [
    line("", data["value.0"], "soft", { width: 1 }),
    { series: [], over: (u) => {
      const sharp = sharpness(u), x = (row) => u.valToPos(row, "x", true);
      u.ctx.fillStyle = colours.out;
      for (const [a, b] of meta.episodes) u.ctx.fillRect(x(a - 0.5), sharp, Math.max(2 * sharp, x(b) - x(a)), 5 * sharp);
    } },
  ],
});

async function start() {
  if (!("DecompressionStream" in window)) {
    throw new Error("this browser cannot inflate the data; one of 2023 or later can");
  }
  await inflate();
  if (!data.row.length) throw new Error("the run has no rows yet");
  host("bar").hidden = false;
  [view.from, view.to] = bounds();
  overview = new Chart(run());
  for (const entry of [columns, sensors, scores, learning, states].flatMap((entries) => entries())) new Chart(entry);
  handleAll();
  rebuild();
  readHash();
  pick?.addEventListener("change", () => {
    for (const chart of charts) if (chart.picked) chart.load();
    redraw();
  });
  new ResizeObserver(() => !printing && overview.width !== overview.figure.clientWidth && rebuild()).observe(document.body);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", rebuild);
  addEventListener("beforeprint", () => { printing = true; root.dataset.print = ""; rebuild(); });
  addEventListener("afterprint", () => { printing = false; delete root.dataset.print; rebuild(); });
  root.dataset.ready = "yes";
}

start().catch((error) => {
  host("trouble").textContent = `No charts: ${error.message}.`;
  host("trouble").hidden = false;
  root.dataset.ready = "no";
});
