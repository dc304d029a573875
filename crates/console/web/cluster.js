// The cluster: sites with their load, logs and checkpoints.

import { ask, button, bytes, el, meter, ms, part, percent, shell, site, table, tag, when, whole } from "/ui.js";

const RESTART = el("p", { class: "lead" }, "A drained site has no partitions until a plan or the autopilot brings some. Processes that restart begin anew as the program that is installed then. To restart all, one after the other: isomer cluster restart.");

/** Moves everything away from a site, after a question. */
function drain(r) {
  if (!shell.may || !(Number(r.masters) + Number(r.replicas))) return "";
  return button("Drain", { action: "drain", site: Number(r.site.slice(1)) }, { label: `Drain ${r.site}`, kind: "danger",
    asks: [`Drain ${r.site}`, `A plan moves its ${whole(r.masters)} masters and ${whole(r.replicas)} replicas to other sites while the database is used. Jobs shows it, and can pause, cancel and reverse it.`, { action: "Drain it", danger: true }] });
}

/** The processes by the sites that they have; this one has the name "". */
function processes(sites) {
  const found = new Map();
  for (const { site: name, health } of sites) {
    const node = /at node (\S+)/.exec(health)?.[1] ?? (/^(ok|full|failed)/.test(health) ? "" : null);
    if (node !== null) found.set(node, [...(found.get(node) || []), name]);
  }
  return [...found].map(([name, own]) => ({ name, sites: own }));
}

/** Restarts a process, after a question. */
function restart(p, all) {
  if (!shell.superuser) return "";
  const what = p.name || "this process";
  const text = all.length > 1 ? "Its partitions are served by other processes meanwhile, where they have copies; others wait. Nothing is restarted while a site is down or a backup is missing."
    : "It is the only process: nothing is served until it is back, which takes seconds. Transactions get ten seconds to end. Log in again afterwards.";
  return button("Restart", { action: "restart", ...(p.name ? { process: p.name } : {}) }, { label: `Restart ${what}`, kind: "danger", asks: [`Restart ${what}`, text, { action: "Restart it", danger: true }] });
}

export default async function cluster(main, live) {
  const box = el("div"), points = el("div"), lost = el("div");
  main.append(el("div", { class: "title" }, el("h1", {}, "Cluster"), el("span")), box, lost, points);
  live.refresh = async () => {
    const [sites, checkpoints, failovers] = await Promise.all([ask("sites"), ask("checkpoints"), ask("failovers", { limit: 50 })]);
    const health = (r) => tag(r.health, /^ok/.test(r.health) ? "good" : /^full/.test(r.health) ? "warn" : "bad");
    const focused = box.contains(document.activeElement) && document.activeElement.getAttribute("aria-label");
    box.replaceChildren(part("Sites", null, table(sites, [["site", (r) => site(r.site)], ["health", health], ["processor", (r) => (r.busy === null ? "–" : meter(Number(r.busy))), "number"],
      ["memory", (r) => (r.memory_max ? meter(Number(r.memory_bytes) / Number(r.memory_max), `${bytes(r.memory_bytes)} of ${bytes(r.memory_max)}`) : bytes(r.memory_bytes)), "number"],
      ["masters", (r) => whole(r.masters), "number"], ["replicas", (r) => whole(r.replicas), "number"], ["commits at one site", (r) => whole(r.commits), "number"],
      ["over several sites", (r) => whole(r.coordinated), "number"], ["log written", (r) => bytes(r.log_bytes), "number"], ["", drain, "actions"]], "None."), RESTART));
    const all = processes(sites);
    box.append(part("Processes", null, table(all, [["process", (p) => p.name || "this one"], ["sites", (p) => el("span", { class: "key" }, ...p.sites.map(site))], ["", (p) => restart(p, all), "actions"]], "None.")));
    // The new elements take over the focus.
    if (focused) box.querySelector(`[aria-label="${focused}"]`)?.focus();
    lost.replaceChildren(part("Failovers", null, table(failovers, [["when", (r) => when(r.at), "when"], ["site", (r) => site(r.site)], ["event", (r) => r.event, "text"]], "No site was taken over from.")));
    const has = (r) => r.last_end !== null;
    if (points.contains(document.activeElement)) return;
    points.replaceChildren(part("Logs and checkpoints", shell.superuser ? button("Checkpoint now", { action: "checkpoint" }) : null, table(checkpoints, [["site", (r) => site(r.site)],
      ["state", (r) => (r.error ? tag(r.error, "bad") : r.running === "t" ? tag(`running, ${bytes(r.bytes_done)}`, "info") : tag("at rest", ""))],
      ["log to read at a restart", (r) => bytes(r.log_bytes_kept), "number"], ["last checkpoint", (r) => (has(r) ? when(r.last_end) : "–"), "when"], ["took", (r) => ms(r.last_ms), "number"], ["size", (r) => bytes(r.last_bytes), "number"]],
    "None: rows are kept in memory only.")));
  };
  await live.refresh();
}
