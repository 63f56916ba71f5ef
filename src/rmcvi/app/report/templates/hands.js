// Mouse, touch and keyboard. A drag with the mouse is uPlot's; with a finger or shift it moves the rows.
function handle(chart) {
  const plot = chart.plot, touches = new Map();
  let grip = null;
  const gap = () => Math.abs([...touches.values()].reduce((a, b) => a - b));

  plot.addEventListener("pointerdown", (event) => {
    view.held = chart;
    if (event.pointerType !== "touch" && !event.shiftKey) return;
    plot.setPointerCapture(event.pointerId);
    touches.set(event.pointerId, event.clientX);
    grip = { x: event.clientX, from: view.from, to: view.to, gap: touches.size === 2 ? gap() : 0 };
  });
  plot.addEventListener("pointermove", (event) => {
    if (touches.has(event.pointerId)) touches.set(event.pointerId, event.clientX);
    if (grip?.gap && touches.size === 2) {
      const half = (grip.to - grip.from) * (grip.gap / Math.max(8, gap())) / 2, middle = (grip.from + grip.to) / 2;
      return show(middle - half, middle + half);
    }
    if (grip && Math.abs(event.clientX - grip.x) > 4) {
      const shift = ((grip.x - event.clientX) / chart.shown.width) * (grip.to - grip.from);
      show(grip.from + shift, grip.to + shift);
    }
    point(chart, chart.rowAt(event), event.clientX, event.clientY);
  });
  for (const end of ["pointerup", "pointercancel"]) {
    plot.addEventListener(end, (event) => { touches.delete(event.pointerId); grip = null; });
  }
  plot.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && hideTip(chart));
  plot.addEventListener("blur", () => hideTip(chart));
  plot.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(1.002 ** event.deltaY, chart.rowAt(event));
  }, { passive: false });
  plot.addEventListener("keydown", (event) => read(chart, event));
}

// Arrow keys move the cursor of the chart in focus, with shift the view.
function read(chart, event) {
  const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!way && event.key !== "Escape") return;
  event.preventDefault();
  if (event.key === "Escape") return hideTip(chart);
  if (event.shiftKey) return pan(way / 4);
  const step = Math.max(1, Math.round((view.to - view.from) / chart.shown.width));
  const row = (view.cursor ?? Math.round((view.from + view.to) / 2) - way) + way * step;
  if (row < view.from || row > view.to) pan(way / 4);
  const box = chart.u.over.getBoundingClientRect();
  point(chart, row, box.left + chart.u.valToPos(row, "x"), box.top + 20);
}

const ACTS = {
  in: () => zoom(0.5, view.cursor ?? undefined), out: () => zoom(2, view.cursor ?? undefined),
  left: () => pan(-0.5), right: () => pan(0.5), reset,
};

function handleAll() {
  charts.forEach(handle);
  for (const button of document.querySelectorAll("[data-act]")) {
    button.addEventListener("click", ACTS[button.dataset.act]);
  }
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("select, input")) return;
    const act = { "+": "in", "=": "in", "-": "out", "0": "reset" }[event.key];
    if (act) { event.preventDefault(); ACTS[act](); }
  });
  choosePart(overview.plot);
  for (const link of document.querySelectorAll("[data-episode]")) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      const [a, b] = meta.episodes[Number(link.dataset.episode)], room = Math.max(20, (b - a) / 2);
      show(a - room, b + room);
      host("stream").scrollIntoView();
    });
  }
  addEventListener("hashchange", readHash);
}

// A drag in the overview chooses what is shown, a click moves it there.
function choosePart(strip) {
  const far = (a, b) => Math.abs(a - b) > (bounds()[1] - bounds()[0]) / 200;
  let start = null;
  strip.addEventListener("pointerdown", (event) => { start = overview.rowAt(event); strip.setPointerCapture(event.pointerId); });
  strip.addEventListener("pointermove", (event) => {
    const end = overview.rowAt(event);
    if (start !== null && far(start, end)) show(Math.min(start, end), Math.max(start, end));
  });
  strip.addEventListener("pointerup", (event) => {
    const end = overview.rowAt(event), half = (view.to - view.from) / 2;
    if (!far(start, end)) show(end - half, end + half);
    start = null;
  });
}
