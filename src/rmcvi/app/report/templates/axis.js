// Ticks and words for numbers, rows and times. The axis of every chart is the place of a row.
const MINUTE = 60, HOUR = 3600, DAY = 86400;
const STEPS = [1, 2, 5, 10, 15, 30, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE,
  30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 4 * DAY, 7 * DAY, 14 * DAY];
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const two = (n) => String(n).padStart(2, "0");

function niceStep(span, count) {
  const rough = span / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  for (const m of [1, 2, 2.5, 5, 10]) if (m * power >= rough) return m * power;
  return 10 * power;
}

function ticks(low, high, count) {
  const step = niceStep(high - low, count), found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) found.push(k * step);
  return { step, found };
}

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

// Place (between rows) of a time: binary search, then a straight line.
function placeOf(time, values) {
  let a = 0, b = values.length - 1;
  while (b - a > 1) {
    const mid = (a + b) >> 1;
    if (values[mid] <= time) a = mid; else b = mid;
  }
  const gap = values[b] - values[a];
  return gap > 0 ? a + (time - values[a]) / gap : a;
}

function timeWords(seconds) {
  const d = new Date(1000 * seconds);
  const day = `${d.getUTCDate()} ${MONTHS[d.getUTCMonth()]} ${d.getUTCFullYear()}`;
  const clock = `${two(d.getUTCHours())}:${two(d.getUTCMinutes())}`;
  return `${day} ${clock}${d.getUTCSeconds() ? ":" + two(d.getUTCSeconds()) : ""}`;
}

function placeTicks(from, to, count) {
  if (data.time) return timeTicks(from, to, count);
  const rows = data.row, last = rows.length - 1;
  const at = (p) => rows[Math.max(0, Math.min(last, Math.round(p)))];
  const { found } = ticks(at(from), Math.max(at(to), at(from) + 1), count);
  return found.filter(Number.isInteger).map((row) => [placeOf(row, rows), words(row, 1)]);
}

function timeTicks(from, to, count) {
  const times = data.time, last = times.length - 1;
  const start = times[Math.max(0, Math.ceil(from))], end = times[Math.min(last, Math.floor(to))];
  if (!(end > start)) return [];
  const rough = (end - start) / Math.min(count, Math.floor(to) - Math.ceil(from));
  const step = STEPS.find((s) => s >= rough);
  const moments = step ? evenMoments(start, end, step) : months(start, end, count);
  return moments.map(([t, text]) => [placeOf(t, times), text]);
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
