// All figures as they are now, as Prometheus gets them.

import { ask, el, part, table } from "/ui.js";

export default async function metrics(main, live) {
  const box = el("div");
  const find = el("input", { type: "search", placeholder: "Filter by name", "aria-label": "Filter by name" });
  main.append(el("div", { class: "title" }, el("h1", {}, "Metrics"), find), box);
  let rows = [];
  const exact = (text) => { const n = Number(text); return Number.isInteger(n) ? n.toLocaleString("en") : n.toPrecision(4); };
  const draw = () => {
    const shown = rows.filter((r) => r.name.includes(find.value.trim()));
    box.replaceChildren(part("Now", el("p", { class: "lead" }, "The same figures, for Prometheus: ", el("a", { href: "/metrics" }, "/metrics")), table(shown,
      [["name", (r) => r.name, "code"], ["labels", (r) => r.labels, "code"], ["kind", (r) => r.kind], ["value", (r) => exact(r.value), "number"]], "No figure has this name.")));
  };
  find.addEventListener("input", draw);
  live.refresh = async () => { rows = await ask("metrics", { limit: 500 }); draw(); };
  await live.refresh();
}
