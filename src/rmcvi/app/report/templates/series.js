// Layers of a chart over the rows. Where several rows share a pixel, least and largest are drawn.

// For each pixel of the view: least, largest and mean of the numbers there (NaN if none).
function decimate(values, from, to, pixels) {
  const low = new Float64Array(pixels).fill(NaN), high = new Float64Array(pixels).fill(NaN);
  const mean = new Float64Array(pixels).fill(NaN);
  const first = Math.max(0, Math.floor(from)), last = Math.min(values.length - 1, Math.ceil(to));
  const scale = pixels / (to - from);
  let pixel = -1, sum = 0, count = 0;
  for (let i = first; i <= last; i++) {
    const v = values[i];
    if (v !== v) continue;
    const p = Math.min(pixels - 1, Math.max(0, Math.floor((i - from) * scale)));
    if (p !== pixel) { pixel = p; sum = 0; count = 0; low[p] = v; high[p] = v; }
    if (v < low[p]) low[p] = v;
    if (v > high[p]) high[p] = v;
    mean[p] = (sum += v) / ++count;
  }
  return { low, high, mean };
}

const dense = (chart) => (view.to - view.from) / chart.span > 1.5;
const visible = (n) => [Math.max(0, Math.floor(view.from)), Math.min(n - 1, Math.ceil(view.to))];

// Least and largest in view, without what lies more than `far` spans beyond the inner values
// (`cut` of them on each side are outer).
function extent(values, cut = 0.01, far = 3) {
  const [a, b] = visible(values.length), step = Math.max(1, Math.floor((b - a) / 1000)), some = [];
  let low = Infinity, high = -Infinity;
  for (let i = a; i <= b; i++) {
    const v = values[i];
    if (v < low) low = v;
    if (v > high) high = v;
    if ((i - a) % step === 0 && v === v) some.push(v);
  }
  if (some.length > 50) {
    some.sort((p, q) => p - q);
    const inner = [some[Math.floor(cut * some.length)], some[Math.floor((1 - cut) * some.length)]];
    const room = far * (inner[1] - inner[0]);
    if (room > 0) [low, high] = [Math.max(low, inner[0] - room), Math.min(high, inner[1] + room)];
  }
  return [low, high];
}

class Line {
  constructor(values, colour, { width = 1.5, dash = [], dots = false, joins = false } = {}) {
    Object.assign(this, { values, colour, width, dash, dots, joins });
  }
  range() { return extent(this.values); }
  draw(chart, pen) {
    pen.strokeStyle = pen.fillStyle = colours[this.colour];
    pen.lineWidth = this.width;
    pen.setLineDash(this.dash);
    if (dense(chart)) this.drawDense(chart, pen); else this.drawRows(chart, pen);
    pen.globalAlpha = 1;
    pen.setLineDash([]);
  }
  drawRows(chart, pen) {
    const [a, b] = visible(this.values.length), wide = chart.span / (view.to - view.from);
    pen.beginPath();
    let open = false;
    for (let i = a; i <= b; i++) {
      const v = this.values[i];
      if (v !== v) { open = false; continue; }
      if (open) pen.lineTo(chart.x(i), chart.y(v)); else pen.moveTo(chart.x(i), chart.y(v));
      open = true;
    }
    pen.stroke();
    const known = (i) => this.values[i] <= Infinity;
    const lone = (i) => !known(i - 1) && !known(i + 1);
    for (let i = a; i <= b; i++) {
      const v = this.values[i];
      if (v === v && ((this.dots && wide > 5) || lone(i))) disc(pen, chart.x(i), chart.y(v), wide > 5 ? 2.4 : 1);
    }
  }
  drawDense(chart, pen) {
    const { low, high, mean } = decimate(this.values, view.from, view.to, chart.span);
    const middle = this.joins;
    if (this.dots) pen.globalAlpha = 0.6;
    pen.beginPath();
    let open = false;
    for (let p = 0; p < chart.span; p++) {
      if (low[p] !== low[p]) { open = false; continue; }
      const x = LEFT + p + 0.5;
      if (middle) {
        if (open) pen.lineTo(x, chart.y(mean[p])); else pen.moveTo(x, chart.y(mean[p]));
      } else {
        const top = chart.y(high[p]), bottom = chart.y(low[p]);
        if (open) pen.lineTo(x, top); else pen.moveTo(x, top);
        pen.lineTo(x, Math.max(bottom, top + 1));
      }
      open = true;
    }
    pen.stroke();
  }
}

class Band {
  constructor(low, high) { Object.assign(this, { low, high }); }
  // Wide bands of a few rows (at the start, say) may leave the chart.
  range() { return [extent(this.low, 0.05, 0.3)[0], extent(this.high, 0.05, 0.3)[1]]; }
  draw(chart, pen) {
    pen.fillStyle = colours.band;
    const points = dense(chart) ? this.pixels(chart) : this.rows(chart);
    for (const run of points) {
      pen.beginPath();
      for (const [x, , high] of run) pen.lineTo(x, chart.y(high));
      for (const [x, low] of run.reverse()) pen.lineTo(x, chart.y(low));
      pen.fill();
    }
  }
  rows(chart) {
    const [a, b] = visible(this.low.length);
    return runs(a, b + 1, (i) => [chart.x(i), this.low[i], this.high[i]], 0.5 * chart.span / (view.to - view.from));
  }
  pixels(chart) {
    const lows = decimate(this.low, view.from, view.to, chart.span).low;
    const highs = decimate(this.high, view.from, view.to, chart.span).high;
    return runs(0, chart.span, (p) => [LEFT + p + 0.5, lows[p], highs[p]], 0.5);
  }
}

function runs(start, end, point, half) {
  const found = [];
  let open = null;
  for (let i = start; i < end; i++) {
    const p = point(i);
    if (!(p[1] <= p[2])) { open = null; continue; }
    if (!open) found.push((open = []));
    open.push(p);
  }
  for (const run of found) {
    if (run.length === 1) run.push([run[0][0] + half, run[0][1], run[0][2]]), (run[0][0] -= half);
  }
  return found;
}

// Values outside their band: rings, or dots where rings would hide the rows; beyond the edge of the chart: a triangle at the edge.
class Outside {
  constructor(values, low, high) {
    this.values = values.map((v, i) => (v < low[i] || v > high[i] ? v : NaN));
  }
  draw(chart, pen) {
    pen.strokeStyle = pen.fillStyle = colours.out;
    pen.lineWidth = 1.5;
    if (!dense(chart)) {
      const [a, b] = visible(this.values.length);
      const size = Math.max(1, Math.min(3.2, 0.6 * chart.span / (view.to - view.from)));
      for (let i = a; i <= b; i++) this.mark(chart, pen, chart.x(i), this.values[i], size);
      return;
    }
    const { low, high } = decimate(this.values, view.from, view.to, chart.span);
    for (let p = 0; p < chart.span; p++) {
      this.mark(chart, pen, LEFT + p + 0.5, high[p], 0.9);
      if (low[p] !== high[p]) this.mark(chart, pen, LEFT + p + 0.5, low[p], 0.9);
    }
  }
  mark(chart, pen, x, value, size) {
    if (value !== value) return;
    const y = chart.y(value), top = TOP + 1, bottom = chart.height - BOTTOM - 1;
    if (y < top) return triangle(pen, x, top, 6);
    if (y > bottom) return triangle(pen, x, bottom, -6);
    if (size < 2) return disc(pen, x, y, size);
    pen.beginPath();
    pen.arc(x, y, size, 0, 7);
    pen.stroke();
  }
}

// Rows without a value: a tint behind, and the learner's own value as a diamond (as a line where
// a pixel holds several rows, and most of them have no value).
class Gaps {
  constructor(values, filled) { Object.assign(this, { values, filled }); }
  range() { return extent(this.filled); }
  draw(chart, pen) {
    if (dense(chart)) return this.drawDense(chart, pen);
    const [a, b] = visible(this.values.length), wide = chart.span / (view.to - view.from);
    for (let i = a; i <= b; i++) {
      if (this.values[i] === this.values[i]) continue;
      pen.fillStyle = colours.gap;
      pen.fillRect(chart.x(i - 0.5), TOP, wide, chart.height);
      pen.fillStyle = colours.fill;
      if (this.filled[i] === this.filled[i]) diamond(pen, chart.x(i), chart.y(this.filled[i]), wide > 5 ? 4 : 1.8);
    }
  }
  drawDense(chart, pen) {
    const [a, b] = visible(this.values.length), scale = chart.span / (view.to - view.from);
    const rows = new Float64Array(chart.span), gone = new Float64Array(chart.span);
    for (let i = a; i <= b; i++) {
      const p = Math.min(chart.span - 1, Math.max(0, Math.floor((i - view.from) * scale)));
      rows[p]++;
      if (this.values[i] !== this.values[i]) gone[p]++;
    }
    const { low, high } = decimate(this.filled, view.from, view.to, chart.span);
    for (let p = 0; p < chart.span; p++) {
      if (!gone[p]) continue;
      pen.globalAlpha = gone[p] / rows[p];
      pen.fillStyle = colours.gap;
      pen.fillRect(LEFT + p, TOP, 1, chart.height);
      pen.fillStyle = colours.fill;
      const top = chart.y(high[p]);
      if (!(gone[p] > rows[p] / 2) || low[p] !== low[p]) continue;
      pen.fillRect(LEFT + p, top, 1, Math.max(1.5, chart.y(low[p]) - top));
    }
    pen.globalAlpha = 1;
  }
}

// A curve given at some places, and a level line.
class Curve {
  constructor(at, values, colour, dash = []) { Object.assign(this, { at, values, colour, dash }); }
  range() {
    const some = this.values.filter((v, i) => v !== null && this.at[i] >= view.from && this.at[i] <= view.to);
    return [Math.min(...some), Math.max(...some)];
  }
  draw(chart, pen) {
    pen.strokeStyle = pen.fillStyle = colours[this.colour];
    pen.lineWidth = 2;
    pen.setLineDash(this.dash);
    pen.beginPath();
    let open = false;
    this.at.forEach((place, i) => {
      const v = this.values[i];
      if (v === null) { open = false; return; }
      if (open) pen.lineTo(chart.x(place), chart.y(v)); else pen.moveTo(chart.x(place), chart.y(v));
      open = true;
    });
    pen.stroke();
    pen.setLineDash([]);
    if (this.at.length > 3) return;
    this.at.forEach((p, i) => this.values[i] !== null && disc(pen, chart.x(p), chart.y(this.values[i]), 3));
  }
  near(place) {
    let best = -1;
    this.at.forEach((p, i) => { if (p <= place + 0.5 && this.values[i] !== null) best = i; });
    return best < 0 ? NaN : this.values[best];
  }
}

class Level {
  constructor(value, colour = "level") { Object.assign(this, { value, colour }); }
  range() { return [this.value, this.value]; }
  draw(chart, pen) {
    pen.strokeStyle = colours[this.colour];
    pen.lineWidth = 1.5;
    pen.setLineDash([6, 4]);
    line(pen, LEFT, chart.y(this.value), chart.width - RIGHT, chart.y(this.value));
    pen.setLineDash([]);
  }
}

function disc(pen, x, y, size) { pen.beginPath(); pen.arc(x, y, size, 0, 7); pen.fill(); }
function diamond(pen, x, y, s) {
  pen.beginPath();
  pen.moveTo(x, y - s); pen.lineTo(x + s, y); pen.lineTo(x, y + s); pen.lineTo(x - s, y);
  pen.fill();
}
function triangle(pen, x, y, s) {
  pen.beginPath();
  pen.moveTo(x, y); pen.lineTo(x + 4, y + s); pen.lineTo(x - 4, y + s);
  pen.fill();
}
