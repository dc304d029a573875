// Advice: plans and shard keys for what ran lately, before and after. A button makes one a proposal.

import { ask, button, el, part, row, seconds, shell, table, tag, whole } from "/ui.js";

const PLANNERS = {
  clay: "Moves what is used together away from the most loaded site.",
  estore: "Moves the hottest keys away from the most loaded site.",
  metis: "Divides all keys anew, so that little is used across sites.",
};
const percent = (n) => (n === null ? "\u2013" : `${Number(n).toFixed(1)} %`);
const times = (n) => `${Number(n).toFixed(2)} \u00d7`;
const change = (before, after) => el("span", {}, before, " \u2192 ", el("b", {}, after));

/** True if a plan brings nothing. */
const isIdle = (r) => Number(r.changes) === 0;

function placement(r) {
  const gains = [Number(r.across_percent) - Number(r.across_percent_after), 20 * (Number(r.imbalance) - Number(r.imbalance_after))];
  const better = gains.some((gain) => gain > 1), worse = gains.some((gain) => gain < -1);
  const [verdict, kind] = isIdle(r) || !(better || worse) ? ["nothing to gain", ""] : better && worse ? ["one for the other", "warn"] : better ? ["better", "good"] : ["worse", "bad"];
  const propose = button("Propose it", { action: "propose", plan: r.plan, because: `advice of ${r.planner}: ${percent(r.across_percent)} of the transactions over several sites before, ${percent(r.across_percent_after)} after` }, { kind: "primary", label: `Propose the plan of ${r.planner}` });
  return el("article", { class: "proposal", "data-planner": r.planner },
    el("div", { class: "head" }, el("h2", {}, r.planner), tag(verdict, kind),
      el("span", { class: "soft" }, PLANNERS[r.planner] ?? ""), shell.may && !isIdle(r) ? row(propose) : el("span")),
    el("div", { class: "facts" },
      el("div", {}, el("span", {}, "transactions over several sites"), change(percent(r.across_percent), percent(r.across_percent_after))),
      el("div", {}, el("span", {}, "load of the busiest site over the mean"), change(times(r.imbalance), times(r.imbalance_after))),
      el("div", {}, el("span", {}, "changes"), el("b", {}, whole(r.changes))),
      r.notes && el("div", {}, el("span", {}, "remarks"), el("b", {}, r.notes))),
    isIdle(r) ? null : el("details", {}, el("summary", {}, "Changes"), el("pre", {}, r.plan)));
}

export default async function advice(main) {
  const box = el("div"), keys = el("div");
  const again = el("button", { onclick: () => draw() }, "Look again");
  main.append(el("div", { class: "title" }, el("h1", {}, "Advice"), row(again)), box, keys);
  const draw = async () => {
    again.disabled = true;
    box.replaceChildren(el("p", { class: "none" }, "Plans are made from what ran lately \u2026"));
    try {
      const [plans, candidates] = await Promise.all([ask("advice"), ask("shard_keys", { limit: 200 })]);
      const none = shell.may ? "Too little ran lately for advice: at least 50 transactions with keys are needed." : "You may not see what other roles use: that takes the role isomer_design.";
      const about = plans.length ? `From ${whole(plans[0].transactions)} transactions of the last ${seconds(plans[0].seconds)}. Plans are made from the first 70 %, and judged by the others, which they have not seen. Nothing moves before a proposal is approved.` : null;
      box.replaceChildren(part("Placement", about, ...(plans.length ? plans.map(placement) : [el("p", { class: "none" }, none)])));
      const propose = (r) => (shell.may && r.statement && Number(r.score) > 0 ? row(button("Propose it", { action: "propose_shard_key", relation: r.relation, column: r.column }, { label: `Propose ${r.column} as shard key of ${r.relation}`,
        asks: [`Propose ${r.column} as shard key`, `${r.statement} waits on the page Decisions. When it is approved, all rows of ${r.relation} are copied into the new order, while the table is used.`, { action: "Propose it" }] })) : "");
      keys.replaceChildren(part("Shard keys", "Each column as the key that distributes a table, the best first. It is judged by the rows that these transactions used.", table(candidates, [
        ["table", (r) => r.relation], ["column", (r) => (r.is_current === "t" ? el("span", {}, r.column, " ", tag("now", "info")) : r.column)],
        ["transactions at one site", (r) => percent(r.at_one_site_percent), "number"], ["busiest site over the mean", (r) => times(r.imbalance), "number"], ["values", (r) => whole(r.cardinality), "number"],
        ["hottest value", (r) => percent(r.hottest_percent), "number"], ["only grows", (r) => percent(100 * Number(r.monotonicity)), "number"], ["accesses that move", (r) => percent(r.moved_percent), "number"],
        ["score", (r) => Number(r.score).toFixed(2), "number"], ["", propose, "actions"]], "No table was used by key lately.")));
    } finally { again.disabled = false; }
  };
  await draw();
}
