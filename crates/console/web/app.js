// The console's pages. Every page is a function of what `isomer.*` says; /api/live brings a sample a second.

const HOUR = 3600;
const PAGES = {
  overview: ["Overview", overview], design: ["Design", design], decisions: ["Decisions", decisions],
  jobs: ["Jobs", jobs], cluster: ["Cluster", cluster], sessions: ["Sessions", sessions], metrics: ["Metrics", metrics],
};
const samples = [];
let onSample = null, stream = null, refresh = null;

const $ = (id) => document.getElementById(id);

/** An element with attributes, and children that are elements or text. */
function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== null && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

async function call(path, body) {
  const post = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  const response = await fetch(path, body === undefined ? {} : post);
  const answer = (response.headers.get("content-type") || "").includes("json") ? await response.json() : {};
  if (response.status === 401 && path !== "/api/login") { showLogin(); throw new Error("log in first"); }
  if (!response.ok) {
    const parts = [answer.message || response.statusText, answer.detail, answer.hint].filter(Boolean);
    throw new Error(parts.join(". "));
  }
  return answer;
}

/** The rows of a question, as objects. */
async function ask(name, part = {}) {
  const { columns, rows } = await call(`/api/ask/${name}?${new URLSearchParams(part)}`);
  return rows.map((row) => Object.fromEntries(columns.map((column, at) => [column, row[at]])));
}

// Numbers and times as people read them.
const whole = (n) => (n === null || n === undefined ? "–" : Math.round(n).toLocaleString("en"));
const ms = (n) => (n === null || n === undefined ? "–" : n < 10 ? `${n.toFixed(2)} ms` : `${Math.round(n)} ms`);
const percent = (n) => (n === null || n === undefined ? "–" : `${(100 * n).toFixed(1)} %`);
function bytes(n) {
  if (n === null || n === undefined || n === "") return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0, left = Number(n);
  while (left >= 1024 && at < units.length - 1) { left /= 1024; at += 1; }
  return `${left < 10 && at > 0 ? left.toFixed(1) : Math.round(left)} ${units[at]}`;
}
const siteNumber = (site) => Number(String(site).replace(/\D/g, "")) || 0;
const colour = (site) => `c${(siteNumber(site) + 7) % 8}`;

/** A table of these columns: [title, value of a row, "number" if it is one]. */
function table(rows, columns, none) {
  if (rows.length === 0) return el("p", { class: "none" }, none);
  const head = columns.map(([title, , kind]) => el("th", { class: kind || null, scope: "col" }, title));
  const cell = (row) => ([, value, kind]) => {
    const shown = value(row);
    return el("td", { class: kind || null }, shown instanceof Node ? shown : String(shown ?? ""));
  };
  const body = rows.map((row) => el("tr", {}, ...columns.map(cell(row))));
  return el("table", {}, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...body));
}

const part = (title, ...children) => el("section", {}, el("h2", {}, title), ...children);
const fields = (row) => Object.keys(row || {}).map((name) => [name.replaceAll("_", " "), (r) => r[name]]);

/** A button that does something at the server, says what came of it, and shows the page anew. */
function button(title, action, asks) {
  return el("button", { onclick: async () => {
    if (asks && !confirm(asks)) return;
    try { await call("/api/act", action); await show(); } catch (error) { fail(error); }
  } }, title);
}

function fail(error) {
  const old = document.querySelector("main > .error");
  if (old) old.remove();
  $("main").prepend(el("p", { class: "error", role: "alert" }, error.message));
}

// Graphs: lines over the last hour, with a marker where the design changed.
const inks = () => getComputedStyle(document.documentElement);
function graph(title, lines, format) {
  const holder = el("div", { class: "plot" });
  const box = part(title, holder);
  const style = inks();
  const marks = { hooks: { draw: [(u) => {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.strokeStyle = style.getPropertyValue("--warn");
    ctx.setLineDash([3, 3]);
    for (const sample of samples) {
      if (Object.keys(sample.changes).length === 0) continue;
      const x = u.valToPos(sample.at / 1000, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath(); ctx.moveTo(x, bbox.top); ctx.lineTo(x, bbox.top + bbox.height); ctx.stroke();
    }
    ctx.restore();
  }] } };
  const axis = { stroke: style.getPropertyValue("--soft"), grid: { stroke: style.getPropertyValue("--line"), width: 1 } };
  let plot = null;
  const data = () => [samples.map((s) => s.at / 1000), ...lines().map(([, , of]) => samples.map((s) => of(s) ?? null))];
  const draw = () => {
    const now = lines();
    if (plot && plot.series.length === now.length + 1) { plot.setData(data()); return; }
    if (plot) plot.destroy();
    const series = now.map(([label, ink]) => ({
      label, stroke: style.getPropertyValue(ink), width: 1.5, spanGaps: true, value: (_, v) => format(v) }));
    plot = new uPlot({ width: Math.max(280, holder.clientWidth), height: 170, series: [{}, ...series], plugins: [marks],
      axes: [axis, { ...axis, size: 64, values: (_, vs) => vs.map(format) }], scales: { y: { range: (_, lo, hi) => [0, hi > 0 ? hi * 1.1 : 1] } } },
      data(), holder);
  };
  const resize = new ResizeObserver(() => { if (plot && holder.clientWidth) plot.setSize({ width: Math.max(280, holder.clientWidth), height: 170 }); });
  resize.observe(holder);
  return { box, draw };
}

async function overview(main) {
  const cards = el("div", { class: "cards" });
  const attention = el("div");
  const sitesNow = () => (samples.length ? Object.keys(samples.at(-1).sites) : []);
  const graphs = [
    graph("Statements a second", () => [["statements", "--s0", (s) => s.statements], ["errors", "--bad", (s) => s.errors]], whole),
    graph("Duration of statements", () => [["median", "--s2", (s) => s.p50_ms], ["99th percentile", "--s1", (s) => s.p99_ms]], ms),
    graph("Commits at one site", () => [["share", "--s4", (s) => s.local]], percent),
    graph("Commits a second by site", () => sitesNow().map((site) => [site, `--s${(siteNumber(site) + 7) % 8}`, (s) => s.sites[site]?.commits]), whole),
  ];
  const log = el("div");
  const [mode] = await ask("autopilot");
  main.append(cards, attention, el("div", { class: "grid" }, ...graphs.map((g) => g.box)),
    part("Changes of the design, newest first (dashed lines in the graphs)", log));
  onSample = () => {
    const now = samples.at(-1);
    if (!now) return;
    const sum = (of) => Object.values(now.sites).reduce((all, site) => all + of(site), 0);
    const changed = samples.slice(-60).reduce((all, s) => all + Object.values(s.changes).reduce((a, b) => a + b, 0), 0);
    cards.replaceChildren(...[
      [whole(now.statements), "statements a second"], [ms(now.p99_ms), "99th percentile"], [whole(now.commits), "commits a second"],
      [percent(now.local), "commits at one site"], [bytes(sum((s) => s.bytes)), "rows and indexes"],
      [whole(changed), "changes in the last minute"], [Object.values(mode)[0], "autopilot"],
    ].map(([value, title]) => el("div", { class: "card" }, el("b", {}, value), el("span", {}, title))));
    const down = Object.entries(now.sites).filter(([, site]) => !site.up).map(([name]) => name);
    attention.replaceChildren(...(down.length === 0 ? [] : [el("section", { class: "attention" },
      el("h2", {}, `${down.join(", ")} cannot be reached or failed`),
      el("p", {}, "Statements that need these sites wait. ", el("a", { href: "#cluster" }, "Cluster"), " shows the reason."))]));
    graphs.forEach((g) => g.draw());
  };
  onSample();
  refresh = async () => log.replaceChildren(table(await ask("changes", { limit: 12 }),
    [["", (r) => r.number, "number"], ["change", (r) => r.change], ["reason", (r) => r.reason], ["took", (r) => ms(r.took_us / 1000), "number"]],
    "No change since the server was started."));
  await refresh();
}

/** A bar of counts by site. */
function bar(parts) {
  const all = parts.reduce((sum, [, count]) => sum + count, 0) || 1;
  const one = ([site, count]) => {
    const piece = el("i", { class: colour(site), title: `${site}: ${whole(count)}` });
    piece.style.width = `${(100 * count) / all}%`;
    return piece;
  };
  return el("div", { class: "bar", role: "img", "aria-label": parts.map(([site, n]) => `${site} ${n}`).join(", ") }, ...parts.map(one));
}

async function design(main) {
  const [placements, tables, sites] = await Promise.all([ask("placements", { limit: 500 }), ask("tables", { limit: 500 }), ask("sites")]);
  const key = el("div", { class: "key" }, ...sites.map((s) => el("span", {}, el("i", { class: colour(s.site) }), s.site)));
  const byTable = new Map();
  for (const row of placements) byTable.set(row.relation, [...(byTable.get(row.relation) || []), row]);
  const detail = el("div");
  const open = async (relation) => {
    const rows = await ask("partitions", { relation, limit: 500 });
    detail.replaceChildren(part(`Partitions of ${relation}${rows.length === 500 ? " (the first 500)" : ""}`,
      bar(rows.map((row) => [row.master, 1])),
      table(rows, [["from", (r) => r.first_key || "the beginning"], ["to", (r) => r.end_key ?? "the end"], ["master", (r) => r.master], ["replicas", (r) => r.replicas]], "None.")));
    detail.scrollIntoView({ block: "nearest" });
  };
  main.append(el("p", { class: "lead" }, "Each bar shows how many partitions of a relation each site masters. Choose a relation to see its ranges."), key,
    part("Relations", table([...byTable.keys()].map((relation) => ({ relation, of: byTable.get(relation), about: tables.find((t) => t.name === relation) })), [
      ["relation", (r) => el("button", { onclick: () => open(r.relation).catch(fail) }, r.relation)],
      ["partitions", (r) => whole(r.of.reduce((all, row) => all + Number(row.partitions), 0)), "number"],
      ["replicated", (r) => whole(r.of.reduce((all, row) => all + Number(row.replicated), 0)), "number"],
      ["masters", (r) => bar(r.of.map((row) => [row.master, Number(row.partitions)]))],
      ["shard key", (r) => r.about?.shard_by ?? ""], ["backups", (r) => r.about?.backups ?? ""],
    ], "No table yet.")), detail);
}

async function decisions(main) {
  const [[mode], rows, [benefit]] = await Promise.all([ask("autopilot"), ask("decisions", { limit: 200 }), ask("benefit")]);
  const now = Object.values(mode)[0];
  const choose = ["off", "recommend", "auto"].map((name) => {
    const chosen = button(name, { action: "autopilot", mode: name });
    chosen.setAttribute("aria-pressed", String(name === now));
    return chosen;
  });
  main.append(part("Autopilot", el("p", { class: "lead" }, "off: no change by itself. recommend: decisions are shown, and not carried out. auto: what pays is carried out."), el("div", {}, ...choose)),
    part("How often forecasts held", table(benefit ? [benefit] : [], fields(benefit), "No decision was measured yet.")),
    part("Decisions, newest first", table(rows, fields(rows[0]), "No decision since the server was started.")));
}

async function jobs(main) {
  const draw = async () => {
    const [plans, now] = await Promise.all([ask("reconfigurations", { limit: 100 }), ask("jobs", { limit: 100 })]);
    const control = (row) => {
      const act = (title, name, asks) => button(title, { action: "reconfiguration", control: name, number: Number(row.number) }, asks);
      const running = [act("Pause", "pause"), act("Cancel", "cancel", "Cancel this plan? What it has made is taken back.")];
      const paused = [act("Resume", "resume"), act("Cancel", "cancel", "Cancel this plan? What it has made is taken back.")];
      const state = row.state || "";
      return el("span", {}, ...(state.startsWith("run") ? running : state.startsWith("paus") ? paused
        : state.startsWith("done") || state.startsWith("ended") ? [act("Reverse", "reverse", "Start a plan that takes this one back?")] : []));
    };
    main.replaceChildren(part("Plans", table(plans, [["", (r) => r.number, "number"], ["state", (r) => r.state], ["made", (r) => `${r.made} of ${r.changes}`, "number"],
      ["rows copied", (r) => whole(Number(r.rows)), "number"], ["next", (r) => r.next], ["reason", (r) => r.reason], ["error", (r) => r.error], ["", control]], "No plan since the server was started.")),
      part("Changes under way", table(now, fields(now[0]), "None.")));
  };
  refresh = draw;
  await draw();
}

async function cluster(main) {
  const draw = async () => {
    const [sites, checkpoints] = await Promise.all([ask("sites"), ask("checkpoints")]);
    const health = (r) => el("span", { class: String(r.health).startsWith("ok") ? "good" : "bad" }, r.health);
    main.replaceChildren(part("Sites", table(sites, [["site", (r) => r.site], ["health", health], ["masters", (r) => whole(Number(r.masters)), "number"],
      ["replicas", (r) => whole(Number(r.replicas)), "number"], ["memory", (r) => bytes(r.memory_bytes), "number"], ["limit", (r) => bytes(r.memory_max), "number"],
      ["busy", (r) => (r.busy === null ? "–" : percent(Number(r.busy))), "number"], ["commits", (r) => whole(Number(r.commits)), "number"],
      ["over several sites", (r) => whole(Number(r.coordinated)), "number"], ["log", (r) => bytes(r.log_bytes), "number"]], "None.")),
      part("Checkpoints", el("p", {}, button("Checkpoint now", { action: "checkpoint" })), table(checkpoints, fields(checkpoints[0]), "None.")));
  };
  refresh = draw;
  await draw();
}

async function sessions(main) {
  const draw = async () => {
    const rows = await ask("sessions", { limit: 200 });
    const known = ["pid", "usename", "application_name", "client_addr", "state", "wait_event_type", "wait_event", "query_start", "query"];
    const there = known.filter((name) => rows[0] && name in rows[0]);
    main.replaceChildren(part(`Sessions (${rows.length})`, table(rows, there.map((name) => [name.replaceAll("_", " "), (r) => r[name]]), "None.")));
  };
  refresh = draw;
  await draw();
}

async function metrics(main) {
  const draw = async () => {
    const rows = await ask("metrics", { limit: 500 });
    main.replaceChildren(part("Metrics", el("p", { class: "lead" }, "Prometheus reads the same at ", el("a", { href: "/metrics" }, "/metrics"), "."),
      table(rows, [["name", (r) => r.name], ["labels", (r) => r.labels], ["value", (r) => Number(r.value).toLocaleString("en"), "number"]], "None.")));
  };
  refresh = draw;
  await draw();
}

// Pages and the stream.
async function show() {
  const name = location.hash.slice(1) in PAGES ? location.hash.slice(1) : "overview";
  const [title, page] = PAGES[name];
  document.title = `${title} – Isomer`;
  for (const link of $("nav").children) link.toggleAttribute("aria-current", link.hash === `#${name}`);
  onSample = refresh = null;
  const main = $("main");
  main.replaceChildren();
  try { await page(main); } catch (error) { fail(error); }
}

function showLogin() {
  if (stream) { stream.close(); stream = null; }
  $("nav").replaceChildren();
  $("logout").hidden = true;
  $("user").textContent = $("state").textContent = "";
  $("main").replaceChildren($("login").content.cloneNode(true));
  const form = $("login-form");
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try { await call("/api/login", Object.fromEntries(new FormData(form))); await start(); }
    catch (error) { form.querySelector(".error").textContent = error.message; }
  });
  form.user.focus();
}

function watch() {
  if (stream) stream.close();
  stream = new EventSource("/api/live");
  const state = $("state");
  stream.addEventListener("history", (event) => {
    samples.length = 0;
    samples.push(...JSON.parse(event.data));
    if (onSample) onSample();
  });
  stream.addEventListener("sample", (event) => {
    samples.push(JSON.parse(event.data));
    if (samples.length > HOUR) samples.shift();
    if (onSample) onSample();
    if (refresh && samples.length % 3 === 0 && !document.hidden) refresh().catch(fail);
  });
  stream.onopen = () => { state.textContent = "live"; state.className = ""; };
  stream.onerror = () => { state.textContent = "connection lost, trying again"; state.className = "lost"; };
}

async function start() {
  let me;
  try { me = await call("/api/me"); } catch { return; }
  $("user").textContent = me.user;
  $("logout").hidden = false;
  $("nav").replaceChildren(...Object.entries(PAGES).map(([name, [title]]) => el("a", { href: `#${name}` }, title)));
  watch();
  await show();
}

$("logout").addEventListener("click", async () => { await call("/api/logout", {}); showLogin(); });
window.addEventListener("hashchange", () => { $("main").focus(); show(); });
start();
