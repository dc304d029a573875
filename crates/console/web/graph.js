// Graphs over time, with a marker where the design changed. Those of a page share their cursor.

import { css, el, part, timeOf } from "/ui.js";

const HEIGHT = 180;
/** Changes within this many pixels are one marker. */
const NEAR = 7;

/** `lines`: [label, ink, value of a sample]; `marks`: [{ at (seconds), text, reason }]. */
export function graph(title, lead, { samples, lines, format, marks, limit }) {
  const holder = el("div", { class: "plot" });
  const tip = el("div", { class: "tip", role: "tooltip" });
  const box = part(title, lead, holder);
  const sync = uPlot.sync("console");
  let plot = null;

  const drawMarks = (u) => {
    const { ctx, bbox } = u;
    const scale = devicePixelRatio;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = css("--mark");
    ctx.lineWidth = scale;
    ctx.setLineDash([3 * scale, 3 * scale]);
    let last = -1e9;
    for (const mark of marks()) {
      const x = u.valToPos(mark.at, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width || x - last < 3 * scale) continue;
      last = x;
      ctx.globalAlpha = 0.55;
      ctx.beginPath(); ctx.moveTo(x, bbox.top); ctx.lineTo(x, bbox.top + bbox.height); ctx.stroke();
      ctx.globalAlpha = 1;
      ctx.beginPath(); ctx.moveTo(x - 4 * scale, bbox.top); ctx.lineTo(x + 4 * scale, bbox.top); ctx.lineTo(x, bbox.top + 6 * scale); ctx.fill();
    }
    ctx.restore();
  };
  const showTip = (u) => {
    const { left } = u.cursor;
    const near = left < 0 ? [] : marks().filter((mark) => Math.abs(u.valToPos(mark.at, "x") - left) <= NEAR);
    if (near.length === 0) { tip.style.display = "none"; return; }
    const more = near.length > 3 ? `, and ${near.length - 3} more` : "";
    tip.replaceChildren(el("b", {}, `${timeOf(near[0].at)} the design changed`), ...near.slice(0, 3).map((mark) => el("div", {}, mark.text)),
      more && el("div", { class: "soft" }, more), near[0].reason && el("div", { class: "soft" }, `why: ${near[0].reason}`));
    tip.style.display = "block";
    const plotLeft = u.over.offsetLeft + left, isRight = left > u.over.clientWidth / 2;
    tip.style.top = `${u.over.offsetTop + 12}px`;
    tip.style.left = isRight ? "auto" : `${plotLeft + 12}px`;
    tip.style.right = isRight ? `${holder.clientWidth - plotLeft + 12}px` : "auto";
  };
  const data = () => {
    const shown = samples();
    return [shown.map((s) => s.at / 1000), ...lines().map(([, , of]) => shown.map((s) => of(s) ?? null))];
  };
  const make = (now) => {
    plot?.destroy();
    const axis = { stroke: css("--soft"), font: "11px system-ui", grid: { stroke: css("--line"), width: 1 }, ticks: { stroke: css("--line"), width: 1, size: 4 } };
    const series = now.map(([label, name]) => ({
      label, stroke: css(name), width: 1.75, spanGaps: true, points: { show: false }, value: (_, v) => format(v) }));
    plot = new uPlot({
      width: Math.max(240, holder.clientWidth), height: HEIGHT, series: [{}, ...series],
      plugins: [{ hooks: { draw: drawMarks, setCursor: showTip } }],
      cursor: { sync: { key: sync.key }, points: { size: 6 }, drag: { x: false, y: false } },
      axes: [{ ...axis, size: 26, space: 80, values: (_, vs) => vs.map((v) => (vs.length > 1 && vs[1] - vs[0] < 60 ? timeOf(v) : timeOf(v).slice(0, 5))) },
        { ...axis, size: 66, space: 34, incrs: format.incrs ?? undefined, values: (_, vs) => vs.map(format) }],
      scales: { y: { range: (_, lo, hi) => [0, limit ?? (hi > 0 ? hi * 1.12 : 1)] } },
    }, data(), holder);
    holder.append(tip);
  };
  const draw = () => {
    const now = lines();
    const isSame = plot && plot.series.length === now.length + 1 && now.every(([label], at) => plot.series[at + 1].label === label);
    if (isSame) plot.setData(data()); else make(now);
    // Without a cursor the legend has the newest values.
    if (plot.cursor.idx === null || plot.cursor.idx === undefined || plot.cursor.left < 0) plot.setLegend({ idx: plot.data[0].length - 1 });
  };
  const resize = new ResizeObserver(() => { if (plot && holder.clientWidth) plot.setSize({ width: Math.max(240, holder.clientWidth), height: HEIGHT }); });
  resize.observe(holder);
  return { box, draw, anew: () => { make(lines()); draw(); } };
}
