// Words for numbers and times, and the ticks of an axis over rows that have times.
const MINUTE = 60, HOUR = 3600, DAY = 86400;
const STEPS = [1, 2, 5, 10, 15, 30, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE,
  30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 4 * DAY, 7 * DAY, 14 * DAY];
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const COUNTS = [1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7].flatMap((power) => [power, 2 * power, 5 * power]);
const two = (n) => String(n).padStart(2, "0");

function words(x, step) {
  if (!Number.isFinite(x)) return "–";
  const large = Math.abs(x);
  if (large !== 0 && (large >= 1e7 || large < 1e-4) && !(step && large < step)) {
    return x.toExponential(2).replace("e+", "e").replace("-", "−");
  }
  let digits = step ? 0 : null;
  while (step && digits < 8 && Math.abs(step * 10 ** digits - Math.round(step * 10 ** digits)) > 1e-6) digits++;
  const text = digits === null ? String(Number(x.toPrecision(5))) : x.toFixed(digits);
  return text.replace("-", "−");
}

// The least index whose value is not below `value`; `values` ascend.
function search(values, value) {
  let [a, b] = [0, values.length];
  while (a < b) {
    const middle = (a + b) >> 1;
    if (values[middle] < value) a = middle + 1; else b = middle;
  }
  return a;
}

// Where a time lies between the rows.
function rowAt(time) {
  const { time: times, row } = data, b = search(times, time), a = Math.max(0, b - 1);
  return row[a] + (b > a ? (row[b] - row[a]) * (time - times[a]) / (times[b] - times[a]) : 0);
}

function timeWords(seconds) {
  const d = new Date(1000 * seconds);
  const day = `${d.getUTCDate()} ${MONTHS[d.getUTCMonth()]} ${d.getUTCFullYear()}`;
  const clock = `${two(d.getUTCHours())}:${two(d.getUTCMinutes())}`;
  return `${day} ${clock}${d.getUTCSeconds() ? ":" + two(d.getUTCSeconds()) : ""}`;
}

// Moments between two rows as [row, text], about `count` of them.
function timeTicks(from, to, count) {
  const a = search(data.row, from), b = search(data.row, to) - 1;
  const [start, end] = [data.time[a], data.time[b]];
  if (!(end > start)) return [];
  const rough = (end - start) / Math.min(count, b - a), step = STEPS.find((s) => s >= rough);
  return (step ? evenMoments(start, end, step) : months(start, end, count)).map(([t, text]) => [rowAt(t), text]);
}

function evenMoments(start, end, step) {
  const found = [], origin = step > DAY ? 4 * DAY : 0;  // weeks begin on Mondays
  for (let t = Math.ceil((start - origin) / step) * step + origin; t <= end; t += step) {
    const d = new Date(1000 * t);
    let text = `${two(d.getUTCHours())}:${two(d.getUTCMinutes())}`;
    if (step < MINUTE) text += `:${two(d.getUTCSeconds())}`;
    if (t % DAY === 0) text = `${d.getUTCDate()} ${MONTHS[d.getUTCMonth()]}`;
    found.push([t, text]);
  }
  return found;
}

function months(start, end, count) {
  const rough = (end - start) / (30.4 * DAY) / count;
  const step = [1, 2, 3, 6, 12, 24, 60, 120, 240, 600].find((s) => s >= rough) || 1200;
  const found = [], first = new Date(1000 * start);
  let n = Math.ceil((12 * first.getUTCFullYear() + first.getUTCMonth()) / step) * step;
  for (; ; n += step) {
    const year = Math.floor(n / 12), month = n % 12, t = Date.UTC(year, month) / 1000;
    if (t > end) return found;
    if (t >= start) found.push([t, month ? `${MONTHS[month]} ${String(year)}` : String(year)]);
  }
}

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
