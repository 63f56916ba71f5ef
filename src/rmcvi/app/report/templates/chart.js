// One chart: a canvas with axes, a caption and layers. All charts share one view (see view.js).
const charts = [];
const LEFT = 54, RIGHT = 6, TOP = 6, BOTTOM = 20;
let colours = {};

function readColours() {
  const style = getComputedStyle(document.documentElement);
  const names = ["paper", "card", "ink", "soft", "line", "seen", "mean", "band", "out", "fill", "gap",
    "rival", "level", "cold", "hot", "none", "pick"];
  colours = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

class Chart {
  // spec: title, unit, height, layers, tell(place) -> [[name, text], ...], keys, least, most
  constructor(host, spec) {
    Object.assign(this, { height: 150, layers: [], keys: [], tell: () => [] }, spec);
    this.figure = element("figure", "chart");
    const caption = element("figcaption", "", this.title);
    if (this.unit) caption.append(element("span", "unit", this.unit));
    for (const [mark, text] of this.keys) {
      const key = element("span", "keys");
      key.append(element("i", `k-${mark}`), text);
      caption.append(key);
    }
    this.canvas = element("canvas", "base");
    this.glass = element("canvas", "glass");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", `Chart: ${this.title}. Arrow keys read it, + and − zoom.`);
    const plot = element("div", "plot");
    plot.append(this.canvas, this.glass);
    this.figure.append(caption, plot);
    host.append(this.figure);
    charts.push(this);
  }

  measure() {
    this.width = Math.max(120, Math.floor(this.figure.clientWidth));
    const ratio = this.ratio = Math.max(window.devicePixelRatio || 1, printing ? 3 : 1);
    for (const canvas of [this.canvas, this.glass]) {
      canvas.width = Math.round(this.width * ratio);
      canvas.height = Math.round(this.height * ratio);
    }
    this.canvas.style.height = printing ? "auto" : `${this.height}px`;
    this.pen = this.canvas.getContext("2d");
    this.span = this.width - LEFT - RIGHT;
  }

  x(place) { return LEFT + ((place - view.from) / (view.to - view.from)) * this.span; }
  y(value) {
    const inner = this.height - TOP - BOTTOM;
    return TOP + inner - ((value - this.low) / (this.high - this.low)) * inner;
  }
  place(x) { return view.from + ((x - LEFT) / this.span) * (view.to - view.from); }

  draw() {
    const pen = this.pen;
    pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    pen.clearRect(0, 0, this.width, this.height);
    this.range();
    this.axes();
    pen.save();
    pen.beginPath();
    pen.rect(LEFT, TOP, this.span, this.height - TOP - BOTTOM);
    pen.clip();
    for (const layer of this.layers) layer.draw(this, pen);
    pen.restore();
  }

  // Whether any of it is in the window, or nearly.
  seen() {
    const { top, bottom } = this.figure.getBoundingClientRect();
    return bottom > -100 && top < innerHeight + 100;
  }

  // Cursor and selection lie on a canvas of their own: they move without the chart.
  mark() {
    const pen = this.glass.getContext("2d"), top = TOP, bottom = this.height - BOTTOM;
    pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    pen.clearRect(0, 0, this.width, this.height);
    if (view.brush) {
      const [a, b] = view.brush.map((p) => this.x(p));
      pen.fillStyle = colours.pick;
      pen.fillRect(Math.min(a, b), top, Math.abs(b - a), bottom - top);
    }
    if (view.cursor !== null && view.cursor >= view.from && view.cursor <= view.to) {
      const x = this.x(view.cursor);
      pen.strokeStyle = colours.soft;
      pen.lineWidth = 1;
      line(pen, x, top, x, bottom);
    }
  }

  range() {
    let low = Infinity, high = -Infinity;
    for (const layer of this.layers) {
      const [a, b] = layer.range ? layer.range() : [Infinity, -Infinity];
      low = Math.min(low, a);
      high = Math.max(high, b);
    }
    this.empty = !(low <= high);
    if (this.empty) [low, high] = [0, 1];
    const room = 0.06 * (high - low) || Math.abs(high) * 0.05 || 1;
    this.low = Math.max(low - room, this.least ?? -Infinity);
    this.high = Math.min(high + room, this.most ?? Infinity);
    if (!(this.low < this.high)) [this.low, this.high] = [low - room, high + room];
  }

  axes() {
    const pen = this.pen;
    pen.font = "11px system-ui, sans-serif";
    pen.lineWidth = 1;
    pen.strokeStyle = colours.line;
    pen.fillStyle = colours.soft;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    const { step, found } = ticks(this.low, this.high, this.height / 32);
    for (const value of found) {
      const y = Math.round(this.y(value)) + 0.5;
      line(pen, LEFT, y, this.width - RIGHT, y);
      if (!this.empty) pen.fillText(words(Math.abs(value) < step / 1e6 ? 0 : value, step), LEFT - 5, y);
    }
    placeAxis(this, pen, this.height - BOTTOM);
    if (this.empty) {
      pen.textAlign = "center";
      pen.fillText("nothing here", LEFT + this.span / 2, (this.height - BOTTOM) / 2);
    }
  }
}

function placeAxis(chart, pen, y) {
  pen.textAlign = "center";
  pen.textBaseline = "top";
  let free = -Infinity;
  for (const [place, text] of placeTicks(view.from, view.to, Math.max(2, chart.span / (chart.span < 500 ? 70 : 95)))) {
    const half = pen.measureText(text).width / 2;
    const x = chart.x(place);
    if (x < LEFT - 1 || x > chart.width - RIGHT + 1) continue;
    line(pen, x, y, x, y + 4);
    const middle = Math.max(LEFT - 20 + half, Math.min(chart.width - half, x));
    if (middle - half < free) continue;
    pen.fillText(text, middle, y + 6);
    free = middle + half + 8;
  }
}

function line(pen, x1, y1, x2, y2) {
  pen.beginPath();
  pen.moveTo(x1, y1);
  pen.lineTo(x2, y2);
  pen.stroke();
}
