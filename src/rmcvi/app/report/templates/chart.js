// One chart over the rows: a caption, and a plot by uPlot. All charts share one view (see view.js).
const charts = [], libraries = new Map();
const LEFT = 54, RIGHT = 6, TOP = 6, BOTTOM = 24;
let colours = {};

// uPlot for a number of device pixels per pixel: paper has more of them than the screen.
function plotter(sharp) {
  if (!libraries.has(sharp)) libraries.set(sharp, library(sharp));
  return libraries.get(sharp);
}

function readColours() {
  const style = getComputedStyle(root);
  const names = ["ink", "soft", "line", "seen", "mean", "band", "out", "fill", "gap", "rival", "level", "cold", "hot",
    "next", "next-band"];
  colours = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

const FONT = "11px system-ui, sans-serif", ruler = document.createElement("canvas").getContext("2d");
function measured(text) {
  ruler.font = FONT;
  return ruler.measureText(text).width;
}

class Chart {
  // An entry of charts.js; `bare` is a chart of the whole run without axes and hands. It `stands`
  // while what uPlot has made of it fits the window, the colours and the parts.
  constructor(spec) {
    Object.assign(this, { height: 150, keys: [], x: data.row, bare: false }, spec);
    this.figure = element("figure", "chart");
    this.plot = element("div", "plot");
    this.plot.style.minHeight = `${this.height}px`;
    this.name = element("figcaption", "", this.title);
    this.measure = element("span", "unit");
    this.name.append(this.measure);
    for (const [mark, text] of this.keys) {
      const key = element("span", "keys");
      key.append(element("i", `k-${mark}`), text);
      this.name.append(key);
    }
    if (!this.bare) {
      this.figure.append(this.name);
      this.plot.tabIndex = 0;
      this.plot.setAttribute("role", "img");
      this.plot.setAttribute("aria-label", `Chart: ${this.title}. Arrow keys read it, + and − zoom.`);
      charts.push(this);
    }
    this.figure.append(this.plot);
    host(this.host).append(this.figure);
    this.load();
  }

  load() {
    this.stands = false;
    this.drawn = this.parts();
    this.series = this.drawn.flatMap((part) => part.series);
    this.measure.textContent = (typeof this.unit === "function" ? this.unit() : this.unit) || "";
  }

  // Whether any of it is in the window, or nearly.
  near() {
    const { top, bottom } = this.figure.getBoundingClientRect();
    return bottom > -100 && top < innerHeight + 100;
  }

  draw() {
    this.width = this.figure.clientWidth;
    const span = Math.max(60, this.width - (this.bare ? 0 : LEFT + RIGHT));
    this.ends = this.bare ? bounds() : [view.from, view.to];
    const shown = this.shown = frame(this.x, ...this.ends, span);
    const columns = this.series.map(({ values, pick, only }) => {
      const found = cut(values, pick, shown), kept = shown.pixel && only?.(shown);
      return kept ? found.map((v, k) => (kept[k >> 1] ? v : null)) : found;
    });
    const given = [shown.at, ...columns];
    if (!this.stands) {
      this.u?.destroy();
      this.u = new (plotter(printing ? 3 : devicePixelRatio))(this.options(), given, this.plot);
      this.u.shown = shown;
      this.stands = true;
      return;
    }
    this.u.shown = shown;
    this.series.forEach((series, k) => { this.u.series[k + 1].alpha = this.alpha(series); });
    this.u.batch(() => this.u.setData(given));
  }

  // Where pixels hold several rows, some series fade, so as not to hide the others.
  alpha({ fade = 1 }) { return this.shown.pixel ? fade : 1; }

  range() {
    let [low, high] = [Infinity, -Infinity];
    for (const part of this.drawn) {
      const [a, b] = part.extent?.(this.shown) ?? [low, high];
      [low, high] = [Math.min(low, a), Math.max(high, b)];
    }
    this.empty = !(low <= high);
    if (this.empty) return [0, 1];
    const room = 0.06 * (high - low) || Math.abs(high) * 0.05 || 1;
    const [a, b] = [Math.max(low - room, this.least ?? -Infinity), Math.min(high + room, this.most ?? Infinity)];
    return a < b ? [a, b] : [low - room, high + room];
  }

  options() {
    const bands = [];
    let at = 1;
    for (const part of this.drawn) {
      if (part.fill) bands.push({ series: [at, at + 1], fill: part.fill });
      at += part.series.length;
    }
    const [soft, line] = [() => colours.soft, () => colours.line];
    const look = { stroke: soft, font: FONT, show: !this.bare, ticks: { stroke: line, size: 4 } };
    return {
      width: this.width, height: this.height, bands, legend: { show: false }, pxAlign: 0,
      padding: this.bare ? [0, 0, 0, 0] : [TOP, RIGHT, 0, 0],
      series: [{}, ...this.series.map(({ values, ...drawn }) => ({ ...drawn, alpha: this.alpha(drawn) }))],
      scales: { x: { time: false, range: () => this.ends }, y: { range: () => this.range() } },
      axes: [{ ...look, size: BOTTOM, gap: 3, grid: { show: false }, ...this.rowAxis() },
        { ...look, size: LEFT, ticks: { show: false }, grid: { stroke: line, width: 1, show: !this.lanes },
          values: (u, at, _, space, step) => at.map((v) => (this.empty ? "" : words(Math.abs(v) < step / 1e6 ? 0 : v, step))) }],
      cursor: {
        show: !this.bare, y: false, points: { show: false }, drag: { x: true, y: false, setScale: false, dist: 4 },
        sync: { key: "rows", scales: ["x", null] },
        bind: { dblclick: () => reset, mousedown: (u, box, act) => (event) => !event.shiftKey && act(event) },
        move: (u, left, top) => [left < 0 ? left : u.valToPos(nearest(u.posToVal(left, "x")), "x"), top],
      },
      hooks: { drawClear: [() => this.paint("under")], draw: [() => this.paint("over")], setSelect: [() => this.brushed()] },
    };
  }

  paint(where) {
    const pen = this.u.ctx, { left, top, width, height } = this.u.bbox;
    let k = 1;
    pen.save();
    pen.beginPath();
    pen.rect(left, 0, width, pen.canvas.height);
    pen.clip();
    for (const part of this.drawn) {
      part[where]?.(this.u, this.shown, k);
      k += part.series.length;
    }
    if (where === "over" && this.empty && !this.lanes) caption(this.u, "nothing here", left + width / 2, top + height / 2, "center");
    pen.restore();
  }

  // uPlot tells every chart of a drag in one of them, and only that one is to zoom.
  brushed() {
    const { left, width } = this.u.select;
    if (this.bare || width <= 0) return;
    if (this === view.held) show(this.u.posToVal(left, "x"), this.u.posToVal(left + width, "x"));
    this.u.setSelect({ left: 0, width: 0 }, false);
  }

  rowAt(event) { return this.u.posToVal(event.clientX - this.u.over.getBoundingClientRect().left, "x"); }

  tell(row) {
    const i = this.x === data.row ? search(this.x, row) : search(this.x, row + 0.5) - 1;
    return this.drawn.flatMap((part) => part.tell(i));
  }

  // Ticks at round times if rows have times, else at round numbers of rows; no label on another.
  rowAxis() {
    let labels = new Map();
    const room = () => (this.shown.width < 500 ? 70 : 95);
    const timed = { splits: (u, _, from, to) => [...(labels = new Map(timeTicks(from, to, Math.max(2, this.shown.width / room())))).keys()] };
    const values = (u, at) => {
      const [from, to] = this.ends, span = this.shown.width;
      let free = -Infinity;
      return at.map((row) => {
        const text = data.time ? labels.get(row) : words(row, 1), x = (row - from) / (to - from) * span;
        const half = measured(text) / 2;
        if (x - half < free || x + half > span + RIGHT) return null;
        free = x + half + 8;
        return text;
      });
    };
    return { incrs: COUNTS, space: room, values, ...(data.time ? timed : {}) };
  }
}
