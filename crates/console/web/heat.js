// The heat map: key ranges from top to bottom, time from left to right, accesses as colour. It is drawn from lists of
// counts; a range is a row, and hot ranges keep rows of their own.

import { css, date, el, ink, isDark, short, timeOf } from "/ui.js";

const LIGHT = [[238, 241, 246], [246, 213, 138], [226, 112, 28], [143, 20, 20]];
const DARK = [[28, 34, 43], [107, 58, 28], [226, 112, 28], [255, 240, 184]];
const STRIP = 14, BOTTOM = 18, GAP = 10;

const list = (text) => (text && text.length > 2 ? text.slice(1, -1).split(",").map(Number) : []);

function shade(stops, share) {
  const at = Math.min(0.9999, Math.max(0, share)) * (stops.length - 1);
  const low = Math.floor(at), part = at - low;
  return stops[low].map((value, i) => Math.round(value + part * (stops[low + 1][i] - value)));
}

/** `rows` of isomer.heat; `chosen` is called with the row of the range that is clicked. */
export function heatMap(chosen) {
  const canvas = el("canvas", { tabindex: 0, role: "img", "aria-label": "Heat map of accesses by key range over time. Arrow keys choose a range, Enter shows its history." });
  const tip = el("div", { class: "tip" });
  const box = el("div", { class: "heat" }, canvas, tip);
  let rows = [], layout = [], most = 1, at = -1;

  const draw = () => {
    const scale = devicePixelRatio || 1;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    if (!width || rows.length === 0) return;
    canvas.width = width * scale; canvas.height = height * scale;
    const ctx = canvas.getContext("2d");
    ctx.scale(scale, scale);
    ctx.clearRect(0, 0, width, height);
    const columns = rows[0].counts.length;
    const top = Math.max(1, ...rows.map((r) => r.total));
    const gaps = rows.filter((r, i) => i > 0 && r.relation !== rows[i - 1].relation).length;
    const room = height - BOTTOM - gaps * GAP;
    // Rows share the height by the square root of their accesses, so that a hot key is seen.
    const weights = rows.map((r) => 1 + 3 * Math.sqrt((r.total / top) * rows.length));
    const sum = weights.reduce((a, b) => a + b, 0);
    const cell = (width - STRIP) / columns;
    let y = 0;
    layout = [];
    const stops = isDark() ? DARK : LIGHT;
    const scaleOf = Math.log1p(most), lines = Math.ceil((height - BOTTOM) * scale);
    const hottest = new Float64Array(lines * columns), drawn = new Uint8Array(lines);
    const inks = new Map();
    for (const { master } of rows) if (!inks.has(master)) inks.set(master, css(ink(master)));
    rows.forEach((r, i) => {
      if (i > 0 && r.relation !== rows[i - 1].relation) y += GAP;
      const h = (room * weights[i]) / sum;
      ctx.fillStyle = inks.get(r.master);
      ctx.fillRect(0, y, STRIP - 5, Math.max(1, h - (h > 4 ? 1 : 0)));
      // Where several ranges share a line of pixels, the hottest is seen.
      for (let line = Math.floor(y * scale); line < Math.ceil((y + h) * scale) && line < lines; line += 1) {
        for (let c = 0; c < columns; c += 1) {
          const at = line * columns + c;
          if (r.counts[c] >= hottest[at]) hottest[at] = r.counts[c];
        }
        drawn[line] = 1;
      }
      layout.push([y, h]);
      y += h;
    });
    const image = new ImageData(columns, lines);
    for (let at = 0; at < hottest.length; at += 1) {
      if (drawn[Math.floor(at / columns)]) image.data.set([...shade(stops, Math.log1p(hottest[at]) / scaleOf), 255], 4 * at);
    }
    const small = new OffscreenCanvas(columns, lines);
    small.getContext("2d").putImageData(image, 0, 0);
    ctx.imageSmoothingEnabled = false;
    ctx.drawImage(small, STRIP, 0, width - STRIP, lines / scale);
    ctx.font = "11px system-ui";
    ctx.textBaseline = "bottom";
    ctx.fillStyle = css("--soft");
    // Labels are at whole minutes.
    const minute = Math.max(1, 60 / rows[0].seconds);
    const step = minute * Math.ceil(columns / minute / Math.max(2, Math.floor(width / 90)));
    const first = (minute - ((rows[0].since / rows[0].seconds) % minute)) % minute;
    for (let c = first; c < columns - 2; c += step) {
      ctx.fillText(timeOf(rows[0].since + c * rows[0].seconds).slice(0, 5), STRIP + c * cell, height);
    }
    if (at >= 0 && layout[at]) {
      ctx.strokeStyle = css("--accent"); ctx.lineWidth = 2;
      ctx.strokeRect(1, layout[at][0], width - 2, Math.max(2, layout[at][1]));
    }
  };
  const rowAt = (y) => layout.findIndex(([top, h]) => y >= top && y < top + h);
  const name = (r) => `${r.relation} [${r.first_key || "beginning"} … ${r.end_key ?? "end"})`;
  const show = (i, c, x, y) => {
    const r = rows[i];
    if (!r) { tip.style.display = "none"; return; }
    const count = c === null ? r.total : r.counts[c];
    tip.replaceChildren(el("b", {}, name(r)), el("div", {}, `master ${r.master}, partition from ${r.partition || "the beginning"}`),
      el("div", { class: "soft" }, c === null ? `${short(count)} accesses in the time shown` : `${timeOf(r.since + c * r.seconds)}: ${short(count / r.seconds)} accesses a second`));
    tip.style.display = "block";
    tip.style.left = `${Math.min(x + 14, canvas.clientWidth - tip.offsetWidth)}px`;
    tip.style.top = `${Math.max(0, y - tip.offsetHeight - 8)}px`;
  };
  canvas.addEventListener("mousemove", (event) => {
    const i = rowAt(event.offsetY);
    const c = rows[0] ? Math.floor(((event.offsetX - STRIP) / (canvas.clientWidth - STRIP)) * rows[0].counts.length) : -1;
    show(i, c < 0 ? null : c, event.offsetX, event.offsetY);
  });
  canvas.addEventListener("mouseleave", () => { tip.style.display = "none"; });
  const choose = (i) => { if (rows[i]) { at = i; draw(); chosen(rows[i]); } };
  canvas.addEventListener("click", (event) => choose(rowAt(event.offsetY)));
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && rows.length) {
      event.preventDefault();
      at = Math.min(rows.length - 1, Math.max(0, at + step));
      draw();
      show(at, null, 20, layout[at][0] + 40);
    } else if (event.key === "Enter") choose(at);
  });
  new ResizeObserver(draw).observe(canvas);

  const set = (found, seconds, relation) => {
    const before = rows[at];
    rows = found.filter((r) => Number(r.seconds) === seconds && (!relation || r.relation === relation)).map((r) => {
      const reads = list(r.reads), writes = list(r.writes);
      const counts = reads.map((n, i) => n + writes[i]);
      return { ...r, seconds, since: date(r.since).getTime() / 1000, counts, total: counts.reduce((a, b) => a + b, 0) };
    });
    // Neighbours of one relation stay together; relations with more accesses come first.
    const totals = new Map();
    rows.forEach((r) => totals.set(r.relation, (totals.get(r.relation) || 0) + r.total));
    const order = [...totals.keys()].sort((a, b) => totals.get(b) - totals.get(a));
    rows = order.filter((relation) => totals.get(relation) > 0).flatMap((relation) => rows.filter((r) => r.relation === relation));
    most = rows.reduce((all, r) => r.counts.reduce((a, b) => Math.max(a, b), all), 1);
    at = before ? rows.findIndex((r) => r.relation === before.relation && r.first_key === before.first_key) : -1;
    draw();
    return { ranges: rows.length, relations: order.filter((relation) => totals.get(relation) > 0) };
  };
  return { box, set, draw };
}
