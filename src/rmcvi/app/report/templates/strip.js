// The strip of sensor failures: a row per column, the largest evidence at each pixel.
const CELL = 12, NAME = 15, ROW = CELL + NAME + 3;

class Strip extends Chart {
  constructor(host, rows) {
    super(host, {
      title: "Evidence of failure", height: TOP + ROW * rows.length + BOTTOM, rows,
      tell: (i) => rows.map(([name, values]) => [name, words(values[i])]),
    });
  }

  draw() {
    const pen = this.pen;
    pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    pen.clearRect(0, 0, this.width, this.height);
    const cold = rgb(colours.cold), hot = rgb(colours.hot);
    this.rows.forEach(([name, values], k) => {
      const top = TOP + k * ROW + NAME;
      pen.font = "11px system-ui, sans-serif";
      pen.textAlign = "left";
      pen.textBaseline = "bottom";
      pen.fillStyle = colours.ink;
      pen.fillText(fitted(pen, name, this.span), LEFT, top - 1);
      this.cells(pen, values, top, cold, hot);
      pen.strokeStyle = colours.line;
      pen.strokeRect(LEFT - 0.5, top - 0.5, this.span + 1, CELL + 1);
    });
    pen.strokeStyle = colours.line;
    pen.fillStyle = colours.soft;
    placeAxis(this, pen, this.height - BOTTOM);
  }

  cells(pen, values, top, cold, hot) {
    const first = Math.max(0, Math.floor(view.from)), last = Math.min(values.length - 1, Math.ceil(view.to));
    const wide = this.span / (view.to - view.from), right = LEFT + this.span;
    const worst = new Float32Array(this.span).fill(NaN);
    for (let i = first; i <= last; i++) {
      const v = values[i], a = Math.max(LEFT, this.x(i - 0.5)), b = Math.min(right, this.x(i + 0.5));
      if (v !== v || b <= a) continue;
      if (wide >= 1) this.cell(pen, a, b - a, v, top, cold, hot);
      else {
        const p = Math.min(this.span - 1, Math.floor(a - LEFT));
        if (!(worst[p] >= v)) worst[p] = v;
      }
    }
    if (wide < 1) worst.forEach((v, p) => v === v && this.cell(pen, LEFT + p, 1, v, top, cold, hot));
  }

  cell(pen, x, wide, value, top, cold, hot) {
    pen.fillStyle = `rgb(${cold.map((c, j) => Math.round(c + (hot[j] - c) * value)).join(" ")})`;
    pen.fillRect(x, top, wide + 0.3, CELL);
    if (value <= 0.5) return;
    pen.fillStyle = colours.ink;
    pen.fillRect(x, top + CELL - 3, wide + 0.3, 3);
  }
}

function rgb(text) {
  const n = parseInt(text.slice(1), 16);
  return [n >> 16, (n >> 8) & 255, n & 255];
}

function fitted(pen, text, room) {
  let shown = text;
  while (shown.length > 1 && pen.measureText(shown).width > room) shown = `${shown.slice(0, -2)}…`;
  return shown;
}
