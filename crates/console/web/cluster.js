// The cluster: sites with their load, logs and checkpoints.

import { ask, button, bytes, el, meter, ms, part, percent, shell, site, table, tag, when, whole } from "/ui.js";

const RESTART = el("p", { class: "lead" }, "A drained site has no partitions until a plan or the autopilot brings some. Processes that restart begin anew as the program that is installed then. To restart all, one after the other: isomer cluster restart.");

/** Moves everything away from a site, after a question. */
function drain(r) {
  if (!shell.may || !(Number(r.masters) + Number(r.replicas))) return "";
  return button("Drain", { action: "drain", site: Number(r.site.slice(1)) }, { label: `Drain ${r.site}`, kind: "danger",
    asks: [`Drain ${r.site}`, `A plan moves its ${whole(r.masters)} masters and ${whole(r.replicas)} replicas to other sites while the database is used. Jobs shows it, and can pause, cancel and reverse it.`, { action: "Drain it", danger: true }] });
}

/**
 * The processes with their sites and roles: { name, own, sites, role, gateway }. `isomer.sites` does not
 * name the one that answers, and a process alone has no name.
 */
function processes(sites, gateways) {
  const found = new Map();
  for (const { site: name, health } of sites) {
    const node = /at node (\S+)/.exec(health)?.[1] ?? (/^(ok|full|failed)/.test(health) ? "" : null);
    if (node !== null) found.set(node, [...(found.get(node) || []), name]);
  }
  const own = gateways.find((g) => !found.has(g.name))?.name ?? "";
  return [...found].map(([node, list]) => {
    const name = node || own, gateway = gateways.find((g) => g.name === name);
    return { name, own: node === "", sites: list, role: gateway?.has_conductor === "t" ? "conductor" : gateway ? "gateway" : "sites only", gateway };
  });
}

/** Restarts a process, after a question. */
function restart(p, all) {
  if (!shell.superuser) return "";
  const what = p.name || "this process";
  const text = all.length > 1 ? "Its partitions are served by other processes meanwhile, where they have copies; others wait. Nothing is restarted while a site is down or a backup is missing."
    : "It is the only process: nothing is served until it is back, which takes seconds. Transactions get ten seconds to end. Log in again afterwards.";
  return button("Restart", { action: "restart", ...(p.own ? {} : { process: p.name }) }, { label: `Restart ${what}`, kind: "danger", asks: [`Restart ${what}`, text, { action: "Restart it", danger: true }] });
}

export default async function cluster(main, live) {
  const box = el("div"), points = el("div"), lost = el("div");
  main.append(el("div", { class: "title" }, el("h1", {}, "Cluster"), el("span")), box, lost, points);
  live.refresh = async () => {
    const [sites, logs, failovers, gateways] = await Promise.all([ask("sites"), ask("logs", { limit: 500 }), ask("failovers", { limit: 50 }), ask("gateways")]);
    const now = live.samples.at(-1), lag = new Map(logs.map((r) => [r.site, r.lag_s]));
    const rate = (r) => now?.sites[r.site]?.commits;
    const health = (r) => tag(r.health, /^ok/.test(r.health) ? "good" : /^full/.test(r.health) ? "warn" : "bad");
    const focused = box.contains(document.activeElement) && document.activeElement.getAttribute("aria-label");
    box.replaceChildren(part("Sites", null, table(sites, [["site", (r) => site(r.site)], ["health", health], ["processor", (r) => (r.busy === null ? "–" : meter(Number(r.busy))), "number"],
      ["memory", (r) => (r.memory_max ? meter(Number(r.memory_bytes) / Number(r.memory_max), `${bytes(r.memory_bytes)} of ${bytes(r.memory_max)}`) : bytes(r.memory_bytes)), "number"],
      ["masters", (r) => whole(r.masters), "number"], ["replicas", (r) => whole(r.replicas), "number"], ["commits a second", (r) => whole(rate(r)), "number"],
      ["replicas behind by", (r) => ms(lag.get(r.site) == null ? null : 1000 * lag.get(r.site)), "number"], ["", drain, "actions"]], "None."), RESTART));
    const all = processes(sites, gateways);
    const load = (p) => now?.processes[p.name];
    box.append(part("Processes", "The process with the conductor keeps the locks and changes the design. When it fails, another one takes its place.", table(all, [["process", (p) => p.name || "this one"], ["role", (p) => tag(p.role, p.role === "conductor" ? "info" : "")], ["sites", (p) => el("span", { class: "key" }, ...p.sites.map(site))],
      ["statements a second", (p) => whole(load(p)?.statements), "number"], ["processor", (p) => percent(load(p)?.busy), "number"], ["rows and indexes", (p) => bytes(load(p)?.bytes), "number"],
      ["silent for", (p) => ms(p.gateway?.silent_ms), "number"], ["news behind", (p) => whole(p.gateway?.news_behind), "number"], ["", (p) => restart(p, all), "actions"]], "None.")));
    // The new elements take over the focus.
    if (focused) box.querySelector(`[aria-label="${focused}"]`)?.focus();
    lost.replaceChildren(part("Failovers", null, table(failovers, [["when", (r) => when(r.at), "when"], ["site", (r) => site(r.site)], ["event", (r) => r.event, "text"]], "No site was taken over from.")));
    const seconds = (n) => (n === null ? "–" : ms(1000 * Number(n)));
    const state = (r) => (Number(r.failed) ? tag("the last checkpoint failed", "bad") : Number(r.running) ? tag("running", "info") : tag("at rest", ""));
    if (points.contains(document.activeElement)) return;
    points.replaceChildren(part("Logs and checkpoints", shell.superuser ? button("Checkpoint now", { action: "checkpoint" }) : null, table(logs, [["site", (r) => site(r.site)], ["state", state],
      ["log to read at a restart", (r) => bytes(r.kept), "number"], ["last checkpoint", (r) => (r.age_s === null ? "–" : `${seconds(r.age_s)} ago`), "number"], ["took", (r) => seconds(r.took_s), "number"], ["size", (r) => bytes(r.bytes), "number"]],
    "None: rows are kept in memory only.")));
  };
  await live.refresh();
}
