// Mouse, touch and keyboard.
function handle(chart) {
  const canvas = chart.canvas, touches = new Map();
  let grip = null;
  const at = (event) => chart.place(event.clientX - canvas.getBoundingClientRect().left);

  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    touches.set(event.pointerId, event.clientX);
    const moves = event.pointerType === "touch" || event.shiftKey;
    grip = { start: at(event), x: event.clientX, from: view.from, to: view.to, moves, gap: null };
    if (touches.size === 2) grip.gap = gap(touches);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (touches.has(event.pointerId)) touches.set(event.pointerId, event.clientX);
    if (grip && touches.size === 2 && grip.gap) {
      const span = (grip.to - grip.from) * (grip.gap / Math.max(8, gap(touches)));
      const middle = (grip.from + grip.to) / 2;
      return show(middle - span / 2, middle + span / 2);
    }
    if (grip && Math.abs(event.clientX - grip.x) > 4) {
      if (!grip.moves) view.brush = [grip.start, at(event)];
      else {
        const shift = ((grip.x - event.clientX) / chart.span) * (grip.to - grip.from);
        show(grip.from + shift, grip.to + shift);
      }
    }
    point(chart, at(event), event.clientX, event.clientY);
  });
  const release = (event) => {
    touches.delete(event.pointerId);
    if (view.brush && event.type === "pointerup") show(Math.min(...view.brush), Math.max(...view.brush));
    view.brush = null;
    grip = null;
    markAll();
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && hideTip());
  canvas.addEventListener("blur", hideTip);
  canvas.addEventListener("dblclick", reset);
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(1.002 ** event.deltaY, at(event));
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => read(chart, event));
}

function gap(touches) {
  const [a, b] = [...touches.values()];
  return Math.abs(a - b);
}

// Arrow keys move the cursor of the chart in focus, with shift the view.
function read(chart, event) {
  const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!way && event.key !== "Escape") return;
  event.preventDefault();
  if (event.key === "Escape") return hideTip();
  if (event.shiftKey) return pan(way / 4);
  const step = Math.max(1, Math.round((view.to - view.from) / chart.span));
  const place = (view.cursor ?? (view.from + view.to) / 2 - way) + way * step;
  if (place < view.from || place > view.to) pan(way / 4);
  const box = chart.canvas.getBoundingClientRect();
  point(chart, place, box.left + chart.x(place), box.top + 20);
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
  const strip = overview.canvas;
  let start = null;
  const at = (event) => overview.place(event.clientX - strip.getBoundingClientRect().left);
  strip.addEventListener("pointerdown", (event) => { start = at(event); strip.setPointerCapture(event.pointerId); });
  strip.addEventListener("pointermove", (event) => {
    const end = at(event);
    if (start !== null && Math.abs(end - start) > size() / 200) show(Math.min(start, end), Math.max(start, end));
  });
  strip.addEventListener("pointerup", (event) => {
    const span = view.to - view.from;
    if (Math.abs(at(event) - start) <= size() / 200) show(at(event) - span / 2, at(event) + span / 2);
    start = null;
  });
  for (const link of document.querySelectorAll("[data-episode]")) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      const [a, b] = meta.episodes[Number(link.dataset.episode)], room = Math.max(20, (b - a) / 2);
      show(a - room, b + room);
      document.getElementById("stream").scrollIntoView();
    });
  }
  addEventListener("hashchange", readHash);
}
