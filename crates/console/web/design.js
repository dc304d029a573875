// The design: where accesses go, where rows are, and how each range came to be there.

import { act, ask, bar, confirmed, el, fail, part, redraw, row, shell, short, site, table, us, when, whole, bytes } from "/ui.js";
import { heatMap } from "/heat.js";

const LAYERS = [["10 minutes", 10], ["1 hour", 60]];
let layer = 10, relation = "";

export default async function design(main, live) {
  const detail = el("div", { class: "detail" });
  const history = el("div");
  const open = async (r) => {
    const rows = await ask("history", { relation: r.relation, key: r.partition, limit: 50 });
    const from = r.partition || "the beginning";
    history.replaceChildren(part(`Why ${r.relation} from ${from} is at ${r.master}`, null,
      rows.length === 0
        ? el("p", { class: "none" }, `No change of this partition is on record. It is at ${r.master} since its table was made, or since a change older than the last thousand.`)
        : table(rows, [["when", (x) => when(x.at), "when"], ["change", (x) => x.change, "code"], ["reason", (x) => x.reason, "text"], ["took", (x) => us(x.took_us), "number"]], "")));
    history.scrollIntoView({ block: "nearest" });
  };
  const heat = heatMap((r) => open(r).catch(fail));
  const empty = el("p", { class: "none" }, "No access was seen yet. The map fills as transactions run: about a thousand a second are counted.");
  const scale = el("span", { class: "key" });
  const pick = el("select", { "aria-label": "Relation", onchange: () => { relation = pick.value; drawHeat(); } });
  const choose = el("div", { class: "choice", role: "group", "aria-label": "Time" }, ...LAYERS.map(([label, length]) =>
    el("button", { "aria-pressed": String(length === layer), onclick: (event) => {
      layer = length;
      for (const other of event.currentTarget.parentNode.children) other.setAttribute("aria-pressed", String(other === event.currentTarget));
      drawHeat();
    } }, label)));
  let rows = [];
  const drawHeat = () => {
    const { ranges, relations } = heat.set(rows, layer, relation);
    const all = [...new Set(rows.map((r) => r.relation))].sort();
    if (pick.options.length !== all.length + 1) {
      pick.replaceChildren(el("option", { value: "" }, "all relations"), ...all.map((name) => el("option", { value: name, selected: name === relation }, name)));
    }
    heat.box.hidden = ranges === 0;
    empty.hidden = ranges > 0;
    scale.replaceChildren(el("span", {}, "few", el("span", { class: `scale ${matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"}` }), "many accesses"),
      el("span", {}, `${whole(ranges)} ranges of ${relations.length} ${relations.length === 1 ? "relation" : "relations"}`));
  };
  /** The mode of a table, with a button that sets another. */
  const mode = (name, now) => (shell.may ? el("button", { class: "link", "aria-label": `Mode of ${name}: ${now}`, onclick: async () => {
    const chosen = await confirmed(`Autopilot of ${name}`, "The mode of a table restricts the mode of the database, and never extends it.",
      { field: "Mode", choices: ["off", "recommend", "approve", "auto"], value: now, action: "Set" });
    if (chosen !== null && chosen !== now) await act({ action: "table_mode", relation: name, mode: chosen });
  } }, now) : now);
  const sites = await ask("sites"), list = el("div");
  let opened = "";
  const drawTables = async () => {
    const [placements, tables] = await Promise.all([ask("placements", { limit: 500 }), ask("tables", { limit: 500 })]);
    const byTable = new Map();
    for (const found of placements) byTable.set(found.relation, [...(byTable.get(found.relation) || []), found]);
    redraw(list, part("Relations", "Choose a relation to see its partitions.", table([...byTable.keys()].map((name) => ({ name, of: byTable.get(name), about: tables.find((t) => t.name === name) })), [
      ["relation", (r) => el("button", { class: "link", onclick: () => partitions(r.name).catch(fail) }, r.name)],
      ["partitions", (r) => whole(r.of.reduce((all, x) => all + Number(x.partitions), 0)), "number"],
      ["replicated", (r) => whole(r.of.reduce((all, x) => all + Number(x.replicated), 0)), "number"],
      ["masters", (r) => bar(r.of.map((x) => [x.master, Number(x.partitions)]))],
      ["shard key", (r) => r.about?.shard_by ?? "–"], ["backups", (r) => r.about?.backups ?? "–"], ["autopilot", (r) => (r.about ? mode(r.name, r.about.autopilot ?? "auto") : "")],
    ], "There is no table yet. CREATE TABLE makes one.")));
    if (opened && !byTable.has(opened)) { opened = ""; detail.replaceChildren(); }
    else if (opened && !detail.contains(document.activeElement)) await drawPartitions();
  };
  const drawPartitions = async () => {
    const name = opened, found = await ask("partitions", { relation: name, limit: 500 });
    if (name !== opened) return;
    detail.replaceChildren(part(`Partitions of ${name}`, found.length === 500 ? "The first 500. Choose one to see why it is where it is." : "Choose one to see why it is where it is.",
      table(found, [["from", (r) => el("button", { class: "link", onclick: () => open({ ...r, relation: name, partition: r.first_key }).catch(fail) }, r.first_key || "the beginning")],
        ["to", (r) => r.end_key ?? "the end"], ["master", (r) => site(r.master)],
        ["replicas", (r) => el("span", { class: "key" }, ...(r.replicas ? r.replicas.split(" ").map(site) : ["–"]))]], "None.")));
  };
  const partitions = async (name) => {
    opened = name;
    await drawPartitions();
    detail.scrollIntoView({ block: "nearest" });
  };
  main.append(el("div", { class: "title" }, el("h1", {}, "Design"), row(pick, choose)),
    part("Accesses by key range over time", "Each row is a range of keys, and the strip at its left has the colour of its master. Choose a range to see why it is there.",
      el("div", { class: "key" }, ...sites.map((s) => site(s.site)), scale), el("p"), heat.box, empty), history,
    list, detail);
  live.refresh = async () => { rows = await ask("heat"); drawHeat(); await drawTables(); };
  live.onTheme = drawHeat;
  await live.refresh();
}
