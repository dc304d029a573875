// Histories that survive restarts: what operators did, and how the design changed.

import { ask, el, part, shell, table, tag, us, when } from "/ui.js";

export default async function history(main, live) {
  const box = el("div"), log = el("div");
  main.append(el("div", { class: "title" }, el("h1", {}, "History"), el("span")), box, log);
  live.refresh = async () => {
    const [audit, changes] = await Promise.all([ask("audit", { limit: 200 }), ask("changes", { limit: 300 })]);
    const none = shell.may ? "No operator has done anything yet. Statements about the design, the server, and roles are kept here." : "You may not see what other roles did: that takes the role isomer_design.";
    box.replaceChildren(part("What operators did", "The last thousand actions are kept on disk.", table(audit, [["when", (r) => when(r.at), "when"], ["role", (r) => r.user_name], ["from", (r) => r.client],
      ["action", (r) => r.action, "code"], ["outcome", (r) => tag(r.outcome, r.outcome === "ok" ? "good" : "bad")]], none)));
    log.replaceChildren(part("Changes of the design", "The last thousand changes are kept on disk.", table(changes, [["", (r) => r.number, "number"], ["when", (r) => when(r.at), "when"], ["change", (r) => r.change, "code"],
      ["reason", (r) => r.reason, "text"], ["took", (r) => us(r.took_us), "number"]], "The design has not changed yet.")));
  };
  await live.refresh();
}
