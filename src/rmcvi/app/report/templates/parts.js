// Parts of a chart. Each says what uPlot draws (`series`, and `under` or `over` them on the canvas),
// which values the chart must have room for (`extent`), and what the tip tells of a row (`tell`).
const known = (v) => v <= Infinity;
const tells = (name, values) => (i) => (known(values[i]) ? [[name, words(values[i])]] : []);
const sharpness = (u) => u.ctx.canvas.width / u.width;

// A line; `dots` marks each row where there is room, `hold` tells the last value that was known.
function line(name, values, colour, { width = 1.5, dash, dots, hold, pick = "ends", fade = 1 } = {}) {
  const stroke = () => colours[colour];
  const show = (u, k) => {
    const roomy = u.shown.scale > 5;
    u.series[k].points.size = roomy ? 4.8 : 2;
    return Boolean(dots && roomy);
  };
  const lone = (u, k, all) => {
    const v = u.data[k], here = (i) => v[i] !== null && (v[i - 1] ?? null) === null && (v[i + 1] ?? null) === null;
    return all ? null : [...v.keys()].filter(here);
  };
  const tell = (i) => {
    while (hold && i > 0 && !known(values[i])) i--;
    return tells(name, values)(i);
  };
  const points = { show, filter: lone, width: 0, stroke, fill: stroke };
  return {
    tell, extent: (shown) => extent(values, shown),
    series: [{ values, pick, fade, stroke, width, dash, points }],
  };
}

// Numbers of which JSON has none are null there.
const curve = (name, values, colour, dash) =>
  line(name, Float64Array.from(values, (v) => v ?? NaN), colour, { width: 2, dash, hold: true });

// Wide bands of a few rows (at the start, say) may leave the chart.
function band(name, low, high, colour = "band") {
  const edge = (values, pick) => ({ values, pick, width: 0, points: { show: false } });
  return {
    series: [edge(high, "high"), edge(low, "low")],
    fill: () => colours[colour],
    extent: (shown) => [extent(low, shown, 0.05, 0.3)[0], extent(high, shown, 0.05, 0.3)[1]],
    tell: (i) => (low[i] <= high[i] ? [[name, `${words(low[i])} to ${words(high[i])}`]] : []),
  };
}

// Rings (dots where rings would hide the rows) or diamonds; beyond the chart, a triangle at its edge.
function marks(values, colour, shape, tell) {
  const paint = () => colours[colour];
  const paths = (u, k) => {
    const fill = new Path2D(), stroke = new Path2D(), clip = new Path2D(), sharp = sharpness(u);
    const { left, top, width, height } = u.bbox, { pixel, scale } = u.shown;
    const size = sharp * (pixel ? 0.9 : Math.max(1, Math.min(3.2, 0.6 * scale)));
    clip.rect(left, top, width, height);
    u.data[k].forEach((v, i) => {
      if (v === null || (pixel && i & 1 && v === u.data[k][i - 1])) return;
      const x = u.valToPos(u.data[0][i], "x", true), y = u.valToPos(v, "y", true);
      const edge = Math.max(top + 1, Math.min(top + height - 1, y)), tail = edge + 6 * sharp * Math.sign(edge - y);
      if (y < top || y > top + height) return corners(fill, [x, edge], [x + 4 * sharp, tail], [x - 4 * sharp, tail]);
      if (shape === "diamond") return corners(fill, [x, y - size], [x + size, y], [x, y + size], [x - size, y]);
      const path = size < 2 * sharp ? fill : stroke;
      path.moveTo(x + size, y);
      path.arc(x, y, size, 0, 7);
    });
    return { fill, stroke, clip, flags: 0 };
  };
  const points = { show: true, paths, width: 1.5, stroke: paint, fill: paint };
  return { tell, series: [{ values, pick: "ends", fade: 0.5, paths: () => null, points }] };
}

function corners(path, [x, y], ...rest) {
  path.moveTo(x, y);
  for (const [a, b] of rest) path.lineTo(a, b);
  path.closePath();
}

// Rows without a value: a tint behind, and what the learner fills in; where a pixel holds several
// rows, only if most of them have no value.
function gaps(values, filled) {
  const gone = values.map((v, i) => (v !== v && i < meta.rows ? 1 : 0));
  const part = marks(filled, "fill", "diamond", tells("filled in", filled));
  let share = null;
  part.extent = (shown) => extent(filled, shown);
  Object.assign(part.series[0], { pick: "mean", fade: 1 });
  part.series[0].only = (shown) => (share = decimate(gone, shown).mean).map((s) => s > 0.5);
  part.under = (u, shown) => {
    const { left, top, height } = u.bbox, sharp = sharpness(u);
    u.ctx.fillStyle = colours.gap;
    const tint = (from, wide, alpha) => {
      u.ctx.globalAlpha = alpha;
      u.ctx.fillRect(from, top, wide, height);
    };
    if (shown.pixel) return share.forEach((s, p) => s > 0 && tint(left + p * sharp, sharp, s));
    for (let i = shown.first; i <= shown.last; i++) {
      if (gone[i]) tint(u.valToPos(data.row[i] - 0.5, "x", true), shown.scale * sharp, 1);
    }
  };
  return part;
}

// A lane of a strip: values from 0 (cold) to 1 (hot), underlined above one half; its name above it.
const LANE = 30, CELL = 12, NAME = 15;
function cells(name, values, lane) {
  const over = (u, shown, k) => {
    const pen = u.ctx, sharp = sharpness(u), { left, width } = u.bbox, top = u.bbox.top + sharp * (LANE * lane + NAME);
    const [cold, hot] = [colours.cold, colours.hot].map((text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16)));
    const wide = sharp * (shown.pixel ? 1 : shown.scale), height = CELL * sharp;
    u.data[k].forEach((v, i) => {
      if (v === null || (shown.pixel && i & 1)) return;
      const middle = u.valToPos(u.data[0][i], "x", true), from = Math.max(left, shown.pixel ? middle - sharp / 4 : middle - wide / 2);
      const end = Math.min(left + width, from + wide + 0.3);
      pen.fillStyle = `rgb(${cold.map((c, j) => Math.round(c + (hot[j] - c) * v)).join(" ")})`;
      pen.fillRect(from, top, end - from, height);
      if (v > 0.5) { pen.fillStyle = colours.ink; pen.fillRect(from, top + height - 3 * sharp, end - from, 3 * sharp); }
    });
    pen.strokeStyle = colours.line;
    pen.lineWidth = sharp;
    pen.strokeRect(left, top, width, height);
    caption(u, name, left, top - sharp, "left");
  };
  return { over, tell: tells(name, values), series: [{ values, pick: "high", paths: () => null, points: { show: false } }] };
}

function caption(u, text, x, y, align) {
  const pen = u.ctx;
  Object.assign(pen, { font: `${11 * sharpness(u)}px system-ui, sans-serif`, textAlign: align, textBaseline: "bottom", fillStyle: colours.ink });
  let shown = text;
  while (shown.length > 1 && pen.measureText(shown).width > u.bbox.width) shown = `${shown.slice(0, -2)}…`;
  pen.fillText(shown, x, y);
}
