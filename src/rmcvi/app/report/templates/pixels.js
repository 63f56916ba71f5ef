// What of the rows a chart shows: each row, or least, largest and mean of each pixel if they are many.

// The samples at `x` in a view of `width` pixels; `pixel` holds the pixel of each where they are many.
function frame(x, from, to, width) {
  let first = search(x, from), last = search(x, to) - 1, pixel = null;
  const scale = width / (to - from);
  if (last - first > 1.5 * width) {
    pixel = new Int32Array(last - first + 1);
    for (let i = first; i <= last; i++) pixel[i - first] = Math.min(width - 1, Math.floor((x[i] - from) * scale));
  } else [first, last] = [Math.max(0, first - 1), Math.min(x.length - 1, last + 1)];
  const at = pixel
    ? Float64Array.from({ length: 2 * width }, (_, k) => from + (k + 0.5) / (2 * scale))
    : x.slice(first, last + 1);
  return { first, last, pixel, at, width, scale };
}

// For each pixel: least, largest and mean of the numbers there (NaN if none).
function decimate(values, { first, last, pixel, width }) {
  const low = new Float64Array(width).fill(NaN), high = low.slice(), mean = low.slice();
  let here = -1, sum = 0, count = 0;
  for (let i = first; i <= last; i++) {
    const v = values[i];
    if (v !== v) continue;
    const p = pixel[i - first];
    if (p !== here) { here = p; sum = 0; count = 0; low[p] = v; high[p] = v; }
    if (v < low[p]) low[p] = v;
    if (v > high[p]) high[p] = v;
    mean[p] = (sum += v) / ++count;
  }
  return { low, high, mean };
}

// The values of a frame for uPlot, null for none; of a pixel, two: `pick` says which.
function cut(values, pick, shown) {
  const known = (v) => (v <= Infinity ? v : null);
  if (!shown.pixel) return Array.from(values.subarray(shown.first, shown.last + 1), known);
  const found = decimate(values, shown);
  const [one, other] = pick === "ends" ? [found.low, found.high] : [found[pick], found[pick]];
  return Array.from(shown.at, (_, k) => known((k & 1 ? other : one)[k >> 1]));
}

// Least and largest in view, without what lies more than `far` spans beyond the inner values
// (`outer` of them on each side do not count as inner).
function extent(values, { first, last }, outer = 0.01, far = 3) {
  const step = Math.max(1, Math.floor((last - first) / 1000)), some = [];
  let low = Infinity, high = -Infinity;
  for (let i = first; i <= last; i++) {
    const v = values[i];
    if (v < low) low = v;
    if (v > high) high = v;
    if ((i - first) % step === 0 && v === v) some.push(v);
  }
  if (some.length > 50) {
    some.sort((p, q) => p - q);
    const inner = [some[Math.floor(outer * some.length)], some[Math.floor((1 - outer) * some.length)]];
    const room = far * (inner[1] - inner[0]);
    if (room > 0) [low, high] = [Math.max(low, inner[0] - room), Math.min(high, inner[1] + room)];
  }
  return [low, high];
}
