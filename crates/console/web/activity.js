// Sessions and open transactions, and which waits for which.

import { ask, button, el, part, row, seconds, shell, table, tag, whole } from "/ui.js";

/** Sessions that block others, with those that wait for them, as a tree of lines. */
function waits(sessions) {
  const blockers = (s) => (s.blocked_by ? s.blocked_by.split(" ") : []);
  const waiting = sessions.filter((s) => blockers(s).length > 0);
  const roots = sessions.filter((s) => blockers(s).length === 0 && waiting.some((w) => blockers(w).includes(s.pid)));
  const line = (s, depth, seen) => {
    const text = el("div", {}, "\u2003".repeat(depth), depth > 0 ? "↳ " : "", el("b", {}, `session ${s.pid}`), ` (${s.usename}) `, tag(s.state, depth ? "warn" : "bad"), " ", el("span", { class: "code" }, (s.query || "").slice(0, 90)));
    const next = seen.has(s.pid) ? [] : waiting.filter((w) => blockers(w).includes(s.pid));
    seen.add(s.pid);
    return [text, ...next.flatMap((w) => line(w, depth + 1, seen))];
  };
  return roots.flatMap((s) => line(s, 0, new Set()));
}

export default async function activity(main, live) {
  const tree = el("div"), box = el("div"), locks = el("div");
  main.append(el("div", { class: "title" }, el("h1", {}, "Activity"), el("span")), tree, box, locks);
  let drawn = "";
  live.refresh = async () => {
    const [sessions, held] = await Promise.all([ask("sessions", { limit: 500 }), ask("locks", { limit: 200 })]);
    const state = JSON.stringify([sessions.map((s) => [s.pid, s.state, s.blocked_by, s.query]), held]);
    const lines = waits(sessions);
    if (state === drawn) return;
    drawn = state;
    const end = (s) => (s.may_end !== "t" ? "" : row(
      s.state === "active" ? button("Cancel", { action: "cancel_statement", pid: Number(s.pid) }, { label: `Cancel the statement of session ${s.pid}` }) : null,
      button("End", { action: "end_session", pid: Number(s.pid) }, { kind: "danger", label: `End session ${s.pid}`, asks: [`End session ${s.pid}`, "Its transaction is rolled back, and its client is disconnected.", { action: "End it", danger: true }] })));
    const kind = (s) => (s.blocked_by ? "warn" : s.state === "active" ? "good" : (s.state || "").startsWith("idle in") ? "info" : "");
    tree.replaceChildren(part("Who waits for whom", null, ...(lines.length ? lines : [el("p", { class: "none" }, "No transaction waits for another.")])));
    box.replaceChildren(part("Sessions", `${whole(sessions.length)} connected. The longest transaction is first.`, table(sessions, [
      ["session", (s) => s.pid, "number"], ["role", (s) => s.usename], ["application", (s) => s.application_name || "–"], ["client", (s) => s.client_addr || "local"],
      ["state", (s) => (s.state ? tag(s.blocked_by ? `waits for ${s.blocked_by}` : s.state, kind(s)) : "–")], ["transaction", (s) => seconds(s.transaction_seconds), "number"],
      ["statement", (s) => el("span", { class: "clamp", title: s.query }, s.query || "–"), "code"], ["", end, "actions"]], "No session.")));
    locks.replaceChildren(part("Locks", null, table(held, [["session", (l) => l.pid ?? "–", "number"], ["of", (l) => l.relname ?? l.locktype], ["kind", (l) => l.locktype], ["mode", (l) => l.mode],
      ["", (l) => tag(l.granted === "t" ? "held" : "waits", l.granted === "t" ? "" : "warn")]], "No lock is held.")));
  };
  await live.refresh();
}
