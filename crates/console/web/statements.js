// Statements by shape: what takes the time, and which of them commit over several sites.

import { ask, el, meter, ms, part, percent, shell, table, when, whole } from "/ui.js";

export default async function statements(main, live) {
  const box = el("div");
  main.append(el("div", { class: "title" }, el("h1", {}, "Statements"), el("span")), box);
  live.refresh = async () => {
    const rows = await ask("statements", { limit: 100 });
    const all = rows.reduce((sum, r) => sum + Number(r.total_ms), 0) || 1;
    const none = shell.may ? "No statement has ended yet." : "You may not see the statements of other roles: that takes the role isomer_design.";
    box.replaceChildren(part("By time taken", "Of all gateways since their starts, with values as “?”. A commit counts for each statement of its transaction. Sites are those that a transaction reads from, on average; rows shipped came from other processes. Of commits over several sites a row at each site is named.", table(rows, [
      ["statement", (r) => el("span", { class: "clamp", title: r.query }, r.query), "code"], ["share of time", (r) => meter(Number(r.total_ms) / all), "number"], ["calls", (r) => whole(r.calls), "number"], ["rows", (r) => whole(r.rows), "number"],
      ["mean", (r) => ms(r.mean_ms), "number"], ["longest", (r) => ms(r.max_ms), "number"], ["errors", (r) => whole(r.errors), "number"], ["commits", (r) => whole(r.commits), "number"],
      ["at one site", (r) => (r.at_one_site_percent === null ? "–" : percent(r.at_one_site_percent / 100)), "number"], ["sites", (r) => (r.sites === null ? "–" : Number(r.sites).toFixed(1)), "number"], ["rows shipped", (r) => whole(r.rows_shipped), "number"], ["last commit", (r) => r.last_commit ?? "–", "text"], ["over several sites because of", (r) => (r.across ? el("span", { class: "clamp", title: r.across }, r.across) : "–"), "code"], ["last", (r) => when(r.last), "when"],
    ], none)));
  };
  await live.refresh();
}
