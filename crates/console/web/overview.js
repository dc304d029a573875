// The overview: what needs attention, figures of now, an hour of graphs with the changes of the design as markers.

import { ask, bytes, el, ink, ms, part, percent, settings, short, table, tag, us, when, whole, date, seconds, shell } from "/ui.js";
import { graph } from "/graph.js";

const RANGES = [["5 min", 300], ["15 min", 900], ["1 h", 3600]];
let range = 900;

/** What needs attention, and what to do about it: { kind, title, text, href, link }. */
function attention({ now, last, sites, sessions, proposals, plans, changes, mode, checkpoints, may }) {
  const found = [];
  const add = (kind, title, text, href, link) => found.push({ kind, title, text, href, link });
  if (now?.trouble) add("bad", "Statements wait or fail at this process", `${now.trouble}.`, "#cluster", "Cluster");
  const down = sites.filter((s) => !/^(ok|full)/.test(s.health));
  for (const s of down) add("bad", `Site ${s.site}: ${s.health}`, "Statements that need its rows wait until it serves again or replicas take over.", "#cluster", "Cluster");
  for (const s of sites) {
    const share = s.memory_max ? Number(s.memory_bytes) / Number(s.memory_max) : 0;
    if (share >= 1) add("bad", `Site ${s.site} is full`, "Commits that add rows there are refused. Raise site_memory, or move partitions to another site.", "#design", "Design");
    else if (share > 0.85) add("warn", `Site ${s.site} has used ${percent(share)} of its memory`, "Raise site_memory, or move partitions away before it is full.", "#design", "Design");
  }
  if (changes === "off") add("warn", "Changes of the design are turned off", "The database serves, and nothing moves. Turn them on once the reason is gone.", "#decisions", "Turn on");
  const waiting = proposals.filter((p) => p.state === "proposed");
  if (waiting.length > 0) {
    add("info", `${waiting.length} ${waiting.length === 1 ? "proposal waits" : "proposals wait"} for a decision`,
      `The oldest expires at ${when(waiting.at(-1).expires)}.`, "#decisions", "Decide");
  }
  for (const p of plans.filter((plan) => plan.state === "paused")) add("warn", `Plan ${p.number} is paused`, `${p.made} of ${p.changes} changes are made, and it holds its tables. Resume or cancel it.`, "#jobs", "Jobs");
  for (const p of plans.filter((plan) => plan.state === "failed" && recent(plan.ended, 600))) add("warn", `Plan ${p.number} failed`, p.error || "A change was refused, and what was made was taken back.", "#jobs", "Jobs");
  const blocked = sessions.filter((s) => s.blocked_by && Number(s.query_seconds) > 3);
  if (blocked.length > 0) {
    const [first] = blocked;
    add("warn", `${blocked.length} ${blocked.length === 1 ? "statement waits" : "statements wait"} for a lock`,
      `Session ${first.pid} waits for session ${first.blocked_by.split(" ")[0]} since ${seconds(first.query_seconds)}.`, "#activity", "Activity");
  }
  const idle = sessions.filter((s) => (s.state || "").startsWith("idle in") && Number(s.transaction_seconds) > 60);
  if (idle.length > 0) add("warn", `${idle.length} transactions are idle for more than a minute`, "They keep locks and old versions of rows. End the session if its client is gone.", "#activity", "Activity");
  for (const c of checkpoints.filter((row) => row.error)) add("bad", `Site ${c.site} cannot make a checkpoint`, c.error, "#cluster", "Cluster");
  if (now && now.errors > 1 && now.errors > 0.05 * now.statements) add("warn", `${percent(now.errors / now.statements)} of the statements fail`, "Metrics count errors by SQLSTATE.", "#metrics", "Metrics");
  const commits = last.reduce((sum, s) => sum + s.commits, 0), local = last.reduce((sum, s) => sum + s.commits * (s.local ?? 0), 0);
  if (commits > 60 && local / commits < 0.5 && (mode === "off" || mode === "recommend")) {
    add("info", `Only ${percent(local / commits)} of the commits run at one site`, `The autopilot is ${mode}. In the modes approve and auto it brings together what is used together.`, "#decisions", "Autopilot");
  }
  if (!may) found.forEach((item) => { if (item.href === "#decisions") item.link = "See"; });
  return found;
}
const recent = (text, within) => text && (Date.now() - date(text)) / 1000 < within;

export default async function overview(main, live) {
  const { samples } = live;
  let rows = [], marks = [], facts = null;
  const shown = () => { const from = (samples.at(-1)?.at ?? 0) - range * 1000; return samples.filter((s) => s.at >= from); };
  const sitesNow = () => (samples.length ? Object.keys(samples.at(-1).sites) : []);
  const common = { samples: shown, marks: () => marks };
  const graphs = [
    graph("Statements a second", null, { ...common, format: short, lines: () => [["statements", "--s0", (s) => s.statements], ["errors", "--s7", (s) => s.errors]] }),
    graph("Commits at one site", null, { ...common, format: percent, limit: 1.02, lines: () => [["share", "--s4", (s) => s.local]] }),
    graph("Duration of statements", null, { ...common, format: ms, lines: () => [["median", "--s2", (s) => s.p50_ms], ["99th percentile", "--s1", (s) => s.p99_ms]] }),
    graph("Commits a second by site", null, { ...common, format: short, lines: () => sitesNow().map((name) => [name, ink(name), (s) => s.sites[name]?.commits]) }),
    graph("Processor by site", null, { ...common, format: percent, lines: () => sitesNow().map((name) => [name, ink(name), (s) => s.sites[name]?.busy]) }),
    graph("Memory by site", null, { ...common, format: bytes, lines: () => sitesNow().map((name) => [name, ink(name), (s) => s.sites[name]?.bytes]) }),
  ];
  const nodes = el("div");
  const cards = el("div", { class: "cards" });
  const list = el("ul", { class: "attention" });
  const log = el("div");
  const choose = el("div", { class: "choice", role: "group", "aria-label": "Time range" }, ...RANGES.map(([label, length]) =>
    el("button", { "aria-pressed": String(length === range), onclick: (event) => {
      range = length;
      for (const other of event.currentTarget.parentNode.children) other.setAttribute("aria-pressed", String(other === event.currentTarget));
      graphs.forEach((g) => g.draw());
    } }, label)));
  main.append(el("div", { class: "title" }, el("h1", {}, "Overview"), choose),
    part("What needs attention", null, list), cards, el("div", { class: "grid" }, ...graphs.map((g) => g.box)),
    nodes, part("Changes of the design", "Newest first. Each is a marker in the graphs.", log));

  const drawAttention = () => {
    if (!facts) return;
    const found = attention({ ...facts, now: samples.at(-1), last: samples.slice(-60) });
    const item = ({ kind, title, text, href, link }) => el("li", { class: kind }, el("i", { "aria-hidden": "true" }),
      el("div", {}, el("b", {}, title), el("p", {}, text)), href ? el("a", { class: "button", href }, link) : el("span"));
    list.replaceChildren(...(found.length > 0 ? found.map(item)
      : [item({ kind: "good", title: "Nothing needs attention", text: "All sites serve, no lock is waited for, and no proposal is open." })]));
  };
  const drawCards = () => {
    const now = samples.at(-1);
    if (!now) { cards.replaceChildren(el("p", { class: "none" }, "The first sample comes within a second.")); return; }
    const sum = (of) => Object.values(now.sites).reduce((all, s) => all + of(s), 0);
    const made = samples.slice(-60).reduce((all, s) => all + Object.values(s.changes).reduce((a, b) => a + b, 0), 0);
    const card = ([value, title]) => {
      const [, number, unit] = /^(\S+)(?:\s(.+))?$/.exec(String(value)) || [null, value, null];
      return el("div", { class: "card" }, el("span", {}, title), el("b", {}, number, unit && el("small", {}, unit)));
    };
    cards.replaceChildren(...[
      [short(now.statements), "Statements / s"], [ms(now.p50_ms), "Median duration"], [ms(now.p99_ms), "99th percentile"],
      [short(now.commits), "Commits / s"], [percent(now.local), "At one site"], [bytes(sum((s) => s.bytes)), "Rows and indexes"],
      [whole(made), "Changes / min"], [facts?.mode ?? "–", "Autopilot"],
    ].map(card));
  };
  const drawNodes = () => {
    const rows = Object.entries(samples.at(-1)?.processes ?? {}).map(([name, of]) => ({ name, ...of }));
    nodes.replaceChildren(part("Load of each process", rows.length > 1 ? "The graphs above show all of them together." : null,
      table(rows, [["process", (r) => r.name || "this one"], ["statements a second", (r) => short(r.statements), "number"], ["mean duration", (r) => ms(r.mean_ms), "number"], ["commits a second", (r) => short(r.commits), "number"],
        ["written at one site", (r) => percent(r.local), "number"], ["wait for locks", (r) => whole(r.waiters), "number"], ["processor", (r) => percent(r.busy), "number"], ["rows and indexes", (r) => bytes(r.bytes), "number"]], "None.")));
  };
  live.onSample = () => { drawCards(); drawAttention(); drawNodes(); graphs.forEach((g) => g.draw()); };
  live.onTheme = () => graphs.forEach((g) => g.anew());
  live.refresh = async () => {
    const [changes, sites, sessions, proposals, plans, all, checkpoints] = await Promise.all([
      ask("changes", { limit: 500 }), ask("sites"), ask("sessions", { limit: 500 }), ask("proposals", { limit: 100 }), ask("reconfigurations", { limit: 100 }),
      settings(), ask("checkpoints")]);
    rows = changes;
    marks = rows.filter((r) => r.at).map((r) => ({ at: date(r.at).getTime() / 1000, text: r.change, reason: r.reason })).reverse();
    facts = { sites, sessions, proposals, plans, changes: all.design_changes, mode: all.autopilot, checkpoints, may: shell.may };
    drawAttention(); drawCards(); graphs.forEach((g) => g.draw());
    log.replaceChildren(table(rows.slice(0, 12), [["when", (r) => when(r.at), "when"], ["change", (r) => r.change, "code"], ["reason", (r) => r.reason, "text"], ["took", (r) => us(r.took_us), "number"]],
      "The design has not changed yet. When the autopilot or an operator changes it, each change is listed here with its reason."));
  };
  live.onSample();
  await live.refresh();
}
