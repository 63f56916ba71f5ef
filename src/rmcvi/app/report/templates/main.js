// The charts of this page.
const host = (id) => document.getElementById(id);
const pick = host("pick");
const chosen = () => meta.curves.lines[pick ? Number(pick.value) : 0];

function columnCharts() {
  meta.columns.forEach(({ name, unit }, k) => {
    const [value, mean, low, high, filled] = ["value", "mean", "low", "high", "filled"].map((p) => data[`${p}.${k}`]);
    const tell = (i) => {
      const lines = [[value[i] === value[i] ? "seen" : "not seen", value[i] === value[i] ? words(value[i]) : ""]];
      if (mean[i] === mean[i]) lines.push(["predicted", words(mean[i])]);
      if (low[i] <= high[i]) lines.push(["band", `${words(low[i])} to ${words(high[i])}`]);
      if (filled[i] === filled[i]) lines.push(["filled in", words(filled[i])]);
      if (value[i] < low[i] || value[i] > high[i]) lines.push(["outside the band", ""]);
      return lines;
    };
    new Chart(host("columns"), {
      title: name, unit, height: 180, tell,
      layers: [new Gaps(value, filled), new Band(low, high), new Line(value, "seen", { width: 1, dots: true }),
        new Line(mean, "mean", { joins: true }), new Outside(value, low, high)],
    });
  });
}

function stripChart() {
  const rows = meta.columns.map(({ name }, k) => [name, data[`failure.${k}`]]).filter(([, values]) => values);
  if (rows.length && host("strip")) new Strip(host("strip"), rows);
}

function curve(id, spec, lines) {
  const layers = lines.map(([values, colour, dash]) => new Curve(meta.curves.at, values, colour, dash));
  const tell = (i) => lines.map(([, , , name], k) => [name, words(layers[k].near(i))]);
  return new Chart(host(id), { tell, ...spec, layers: [...(spec.layers || []), ...layers] });
}

function scoreCharts() {
  const line = chosen();
  const rmse = curve("rmse", {
    title: "RMSE so far", unit: line.unit, height: 200, keys: [["mean", "learner"], ["rival", "persistence"]],
  }, [[line.learner, "mean", [], "learner"], [line.persistence, "rival", [7, 4], "persistence"]]);
  const share = curve("coverage", {
    title: `Share inside the band, last ${meta.window} rows`, height: 160, least: 0, most: 1.02,
    keys: [["mean", "found"], ["level", "right"]], layers: [new Level(meta.level)],
  }, [[line.coverage, "mean", [], "inside"]]);
  if (!pick) return;
  pick.addEventListener("change", () => {
    const line = chosen();
    [rmse.layers[0].values, rmse.layers[1].values] = [line.learner, line.persistence];
    share.layers[1].values = line.coverage;
    rmse.figure.querySelector(".unit")?.replaceChildren(line.unit);
    redraw();
  });
}

function learningCharts() {
  const wide = { height: 140 };
  if (meta.curves.log_score.some((v) => v !== null)) {
    curve("progress", { title: `Log score of a row, mean of the last ${meta.window}`, unit: "nats", ...wide },
      [[meta.curves.log_score, "mean", [], "log score"]]);
  }
  const told = [["elbo", "ELBO / t", "nats per row"], ["ess", "Effective sample size", "particles"]];
  for (const [name, title, unit] of told) {
    if (!data[name]) continue;
    new Chart(host("progress"), {
      title, unit, ...wide, layers: [new Line(data[name], "mean")], least: name === "ess" ? 0 : undefined,
      tell: (i) => [[title, words(data[name][i])]],
    });
  }
  for (const { name, at, value } of meta.parameters) {
    const layer = new Curve(at, value, "mean");
    const tell = (i) => [[name, words(layer.near(i))]];
    new Chart(host("parameters"), { title: name, height: 120, layers: [layer], tell });
  }
}

function stateCharts() {
  meta.states.forEach((name, k) => {
    const mean = data[`state.${k}`], spread = data[`spread.${k}`], z = meta.width;
    const low = mean.map((m, i) => m - z * spread[i]), high = mean.map((m, i) => m + z * spread[i]);
    new Chart(host("hidden"), {
      title: `state ${name}`, height: 120, layers: [new Band(low, high), new Line(mean, "mean")],
      tell: (i) => [["mean", words(mean[i])], ["spread", words(spread[i])]],
    });
  });
}

async function start() {
  if (!("DecompressionStream" in window)) {
    throw new Error("this browser cannot inflate the data; one of 2023 or later can");
  }
  await inflate();
  if (!size()) throw new Error("the run has no rows yet");
  host("bar").hidden = false;
  for (const build of [columnCharts, stripChart, scoreCharts, learningCharts, stateCharts]) build();
  [view.from, view.to] = [-0.5, size() - 0.5];
  handleAll();
  measureAll();
  readHash();
  new ResizeObserver(() => {
    if (!printing && charts[0].width !== Math.floor(charts[0].figure.clientWidth)) measureAll();
  }).observe(document.body);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", measureAll);
  addEventListener("beforeprint", () => { printing = true; root.dataset.print = ""; measureAll(); });
  addEventListener("afterprint", () => { printing = false; delete root.dataset.print; measureAll(); });
  root.dataset.ready = "yes";
}

start().catch((error) => {
  const box = host("trouble");
  box.textContent = `No charts: ${error.message}.`;
  box.hidden = false;
  root.dataset.ready = "no";
});
