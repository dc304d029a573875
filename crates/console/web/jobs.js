// Jobs: plans with their progress, and the changes under way.

import { ask, button, bytes, el, part, row, shell, table, tag, us, when, whole } from "/ui.js";

const KINDS = { running: "info", paused: "warn", undoing: "warn", done: "good", cancelled: "", failed: "bad", interrupted: "warn" };
const BACK = "What it has made is taken back, the last change first.";

function controls(plan) {
  if (!shell.may) return "";
  const act = (title, control, asks, kind) => button(title, { action: "reconfiguration", control, number: Number(plan.number) }, { asks, kind, label: `${title} plan ${plan.number}` });
  const cancel = act("Cancel", "cancel", [`Cancel plan ${plan.number}`, BACK, { action: "Cancel it", danger: true }], "danger");
  if (plan.state === "running") return row(act("Pause", "pause"), cancel);
  if (plan.state === "paused") return row(act("Resume", "resume", null, "primary"), cancel);
  if (plan.reversible === "t") return row(act("Reverse", "reverse", [`Reverse plan ${plan.number}`, "Another plan takes back what this one has made.", { action: "Reverse" }]));
  return "";
}

/** Buttons of a change of a shard key. Tables with names that need quotes have none. */
function sharding(change) {
  const found = /^ALTER TABLE (?:public\.)?([a-z0-9_.]+) SHARD BY/.exec(change.change);
  if (!shell.may || !found) return "";
  const relation = found[1];
  const act = (title, control, asks, kind) => button(title, { action: "sharding", control, relation }, { asks, kind, label: `${title} the change of the shard key of ${relation}` });
  const paused = change.state.startsWith("paused");
  return row(paused ? act("Resume", "resume", null, "primary") : act("Pause", "pause"), act("Cancel", "cancel", [`Keep the shard key of ${relation}`, "What was copied is dropped.", { action: "Cancel the change", danger: true }], "danger"));
}

function progress(plan) {
  if (plan.made === null) return `some of ${plan.changes}`;
  const share = Number(plan.changes) ? Number(plan.made) / Number(plan.changes) : 0;
  const fill = el("i");
  fill.style.width = `${100 * share}%`;
  return el("span", { class: "meter" }, `${plan.made} of ${plan.changes}`, el("i", { "aria-hidden": "true" }, fill));
}

/** The 99th percentile of transactions before and during a plan. */
function disturbance(plan) {
  if (!plan.p99_us) return "too few transactions";
  const when = plan.ended ? "while it ran" : "since";
  return plan.quiet_p99_us ? `${us(plan.quiet_p99_us)} before, ${us(plan.p99_us)} ${when}` : `${us(plan.p99_us)} ${when}`;
}

export default async function jobs(main, live) {
  const box = el("div"), now = el("div");
  main.append(el("div", { class: "title" }, el("h1", {}, "Jobs"), el("span")), box, now);
  let drawn = "";
  live.refresh = async () => {
    const [plans, changes] = await Promise.all([ask("reconfigurations", { limit: 100 }), ask("jobs", { limit: 100 })]);
    const state = JSON.stringify(plans);
    if (state !== drawn) {
      drawn = state;
      box.replaceChildren(part("Plans", "Plans that an operator asked for or approved. Each can be paused, cancelled and reversed.", table(plans, [
        ["", (r) => r.number, "number"], ["state", (r) => tag(r.state, KINDS[r.state])], ["changes made", progress, "number"], ["rows copied", (r) => whole(r.rows), "number"], ["bytes", (r) => bytes(r.bytes), "number"],
        ["begun", (r) => when(r.begun), "when"], ["ended", (r) => (r.ended ? when(r.ended) : r.ends ? `about ${when(r.ends)}` : "–"), "when"], ["99th percentile", disturbance, "text"], ["reason", (r) => r.reason, "text"], ["next or error", (r) => r.error || r.next || "–", "code"],
        ["", controls, "actions"]], "No plan since the server was started. ALTER SYSTEM RECONFIGURE begins one, and so does an approved proposal.")));
    }
    now.replaceChildren(part("Under way", null, table(changes, [["change", (r) => r.change, "code"], ["reason", (r) => r.reason, "text"], ["state", (r) => tag(r.state, "info")], ["for", (r) => us(r.for_us), "number"], ["", sharding, "actions"]], "No change of the design is under way.")));
  };
  await live.refresh();
}
