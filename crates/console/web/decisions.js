// Decisions and proposals: what the autopilot wants or did, why, and what it brought; and the switches.

import { act, ask, button, confirmed, date, el, part, percent, readable, redraw, row, settings, shell, short, table, tag, us, when, whole } from "/ui.js";

const MODES = {
  off: "Only operators change placement.", recommend: "Decisions are shown, and nothing is changed.",
  approve: "Plans wait below for an operator.", auto: "What pays is carried out.",
};
/** The limits of the autopilot: what they are about, and how they are written. */
const LIMITS = {
  change_window: ["Time of the day for changes", "Two times in UTC, such as 22:00-06:00, or always."],
  changes_per_minute: ["Changes a minute", "A number, or unlimited."],
  change_bytes_per_second: ["Bytes copied a second", "A size such as 10MB, or unlimited."],
  change_added_p99: ["Rise of the 99th percentile", "A duration such as 5ms, or unlimited. No change begins while those of the last minute have raised it by more."],
};
/** Fewer transactions than this say little. */
const FEW = 20;
const KINDS = { proposed: "info", approved: "info", running: "info", done: "good", refused: "bad", rejected: "", expired: "" };
const number = (n) => (n === null || n === undefined ? null : Number(n));

/** What a decision brought, in words. */
function brought(decision) {
  if (!decision || decision.measured_us === null) return null;
  const saved = Number(decision.measured_us), before = number(decision.before_us), after = number(decision.after_us);
  const way = saved >= 0 ? "faster" : "slower";
  return before ? `${us(before)} before, ${us(after)} after: ${percent(Math.abs(saved) / before)} ${way}` : `${us(Math.abs(saved))} ${way}`;
}

/** What a plan brought for all transactions, in words; or why that is not known. */
function effect(p) {
  if (p.state !== "done") return null;
  const known = (side) => Number(p[`${side}_transactions`] ?? 0);
  if (p.after_transactions === null) return "nothing was measured in the minute after it";
  if (known("before") < FEW || known("after") < FEW) return `not known yet: ${whole(known("before"))} transactions were measured before, ${whole(known("after"))} after, and ${FEW} are needed`;
  const side = (name) => [percent(p[`${name}_at_one_site_percent`] / 100), us(p[`${name}_mean_us`]), us(p[`${name}_p99_us`])];
  const [before, after] = [side("before"), side("after")];
  return `at one site ${before[0]} → ${after[0]}, mean duration ${before[1]} → ${after[1]}, 99th percentile ${before[2]} → ${after[2]}`;
}

/** Errors of forecasts over time: a point for each measured decision. */
function errors(rows) {
  const of = rows.map((r) => ({ at: date(r.at), foretold: Number(r.foretold_us), measured: Number(r.measured_us), number: r.number }))
    .filter((r, at) => r.at && r.foretold > 0 && rows[at].measured_us !== null).reverse().slice(-60);
  if (of.length === 0) return el("p", { class: "none" }, "No decision was measured yet: that takes transactions on its ranges after its changes.");
  const most = 200;
  const bars = of.map((r) => {
    const error = Math.min(most, Math.abs(r.measured / r.foretold - 1) * 100);
    const piece = el("i", { class: error > 100 ? "c1" : "c4", title: `decision ${r.number} at ${when(r.at.toISOString().replace("T", " ").replace("Z", "+00"))}: foretold ${us(r.foretold)}, measured ${us(r.measured)}` });
    piece.style.height = `${Math.max(2, (100 * error) / most)}%`;
    return piece;
  });
  return el("div", { class: "bars", role: "img", "aria-label": `Errors of the last ${of.length} measured decisions, the newest at the right` }, ...bars);
}

function proposal(p, decision, may) {
  const fact = (name, value) => value && value !== "–" && el("div", {}, el("span", {}, name), el("b", {}, value));
  const reject = async () => {
    const because = await confirmed(`Reject proposal ${p.number}`, "The same partitions are not proposed for ten minutes.", { field: "Reason (the audit trail keeps it)", action: "Reject", danger: true });
    if (because !== null) await act({ action: "reject", number: Number(p.number), because });
  };
  return el("article", { class: "proposal", "data-number": p.number },
    el("div", { class: "head" }, el("h2", {}, `Proposal ${p.number}`), tag(p.state, KINDS[p.state]),
      el("span", { class: "soft" }, `${when(p.proposed)}${p.expires ? `, expires ${when(p.expires)}` : ""}`),
      may && p.state === "proposed" ? row(button("Approve", { action: "approve", number: Number(p.number) }, { kind: "primary", label: `Approve proposal ${p.number}` }),
        el("button", { class: "danger", onclick: reject, "aria-label": `Reject proposal ${p.number}` }, "Reject")) : el("span")),
    el("div", {}, p.reason),
    el("div", { class: "facts" }, fact("changes", whole(p.changes)), fact("foretold to save a transaction", us(decision?.foretold_us)), fact("foretold to cost once", us(decision?.costs_us ?? p.costs_us)),
      fact("decided", p.decided_by && `by ${p.decided_by} at ${when(p.decided)}`), fact("because", p.because), fact("outcome", p.outcome),
      fact("plan", p.reconfiguration && `number ${p.reconfiguration}`), fact("brought to its transactions", brought(decision)), fact("brought to all", effect(p)), fact("proposed by", p.proposed_by)),
    el("details", { open: p.state === "proposed" && Number(p.changes) <= 6 }, el("summary", {}, "Changes"), el("pre", {}, p.plan)));
}

/** The limits, each with a button that sets another. */
function limits(all, may) {
  const change = async (name, now) => {
    const [title, form] = LIMITS[name];
    const value = await confirmed(title, form, { field: "Limit", value: now, action: "Set" });
    if (value !== null && value !== now) await act({ action: "limit", name, value });
  };
  return el("div", { class: "facts" }, ...Object.entries(LIMITS).map(([name, [title]]) => el("div", {}, el("span", {}, title),
    may ? el("button", { class: "link", "aria-label": `${title}: ${all[name]}`, onclick: () => change(name, all[name]) }, all[name]) : el("b", {}, all[name]))));
}

export default async function decisions(main, live) {
  const box = el("div"), list = el("div"), log = el("div"), ended = el("div");
  main.append(el("div", { class: "title" }, el("h1", {}, "Decisions and proposals"), el("span")), box, list, log);
  let drawn = "", places = [];
  const draw = async () => {
    const [all, rows, [benefit], proposals] = await Promise.all([
      settings(), ask("decisions", { limit: 200 }), ask("benefit"), ask("proposals", { limit: 100 })]);
    const { may } = shell, { autopilot: mode, design_changes: switched } = all;
    const state = JSON.stringify([all, rows, benefit, proposals]);
    // Elements that did not change stay, and with them the focus.
    if (state === drawn) return;
    drawn = state;
    const choose = el("div", { class: "choice", role: "group", "aria-label": "Mode of the autopilot" }, ...Object.keys(MODES).map((name) => {
      const chosen = button(name, { action: "autopilot", mode: name });
      chosen.setAttribute("aria-pressed", String(name === mode));
      chosen.disabled = !may;
      return chosen;
    }));
    const kill = switched === "on"
      ? button("Stop all changes", { action: "design_changes", on: false }, { kind: "danger", asks: ["Stop all changes", "No change of the design begins until they are turned on again, and running plans are paused. The database goes on serving.", { action: "Stop", danger: true }] })
      : button("Let changes begin", { action: "design_changes", on: true }, { kind: "primary" });
    kill.disabled = !may;
    const reads = may ? null : el("p", { class: "none" }, "You may look, and not steer: that takes the role isomer_design.");
    redraw(box, part("Autopilot", `${MODES[mode] ?? ""}${switched === "off" ? " Changes are turned off." : ""}`, row(choose, kill), reads),
      part("Limits", "For what the autopilot does by itself. Relations, in Design, have modes of their own.", el("div", { class: "proposal" }, limits(all, may))));
    const decision = (p) => rows.find((r) => r.number === p.decision);
    // What saves the most comes first. Under the pointer proposals keep their places, and new ones come behind them.
    const saves = (p) => Number(decision(p)?.foretold_us ?? 0);
    const open = proposals.filter((p) => ["proposed", "approved", "running"].includes(p.state)).sort((a, b) => saves(b) - saves(a));
    const place = (p) => (places.includes(p.number) ? places.indexOf(p.number) : places.length);
    if (list.matches(":hover, :focus-within")) open.sort((a, b) => place(a) - place(b));
    places = open.map((p) => p.number);
    const over = proposals.filter((p) => !open.includes(p));
    const none = mode === "approve" ? "No proposal waits. The autopilot proposes a plan when the load shows that one pays." : "No proposal waits. In the mode approve, plans wait here for your decision.";
    const shown = over.slice(0, 12);
    redraw(list, part("Proposals", open.length ? `${open.length} open` : null, ...(open.length ? open.map((p) => proposal(p, decision(p), may)) : [el("p", { class: "none" }, none)])));
    redraw(ended, shown.length ? part("Decided proposals", "Newest first, with what they brought.", ...shown.map((p) => proposal(p, decision(p), may))) : "");
    const good = (r) => /^made/.test(r.outcome || ""), bad = (r) => /not made|refused/.test(r.outcome || "");
    redraw(log, ended, part("How often forecasts held", null, benefit && Number(benefit.decisions) > 0 ? el("div", { class: "proposal" }, el("div", { class: "facts" },
      ...[["decisions that changed the design", whole(benefit.decisions)], ["measured", whole(benefit.measured)], ["median error of the forecast", benefit.median_error_percent === null ? "–" : percent(benefit.median_error_percent / 100)],
        ["brought what was foretold", benefit.as_foretold_percent === null ? "–" : percent(benefit.as_foretold_percent / 100)], ["taken back", benefit.taken_back_percent === null ? "–" : percent(benefit.taken_back_percent / 100)]]
        .map(([name, value]) => el("div", {}, el("span", {}, name), el("b", {}, value))))) : el("p", { class: "none" }, "No decision was measured yet.")),
    part("Errors of forecasts over time", "Each bar is a decision: how far the measured saving is from the foretold one, up to 200 %.", errors(rows)),
    part("Decisions", "Newest first. Foretold and measured are savings for each transaction that uses the ranges.", table(rows, [
      ["", (r) => r.number, "number"], ["when", (r) => when(r.at), "when"], ["change", (r) => r.change, "code"], ["reason", (r) => r.reason, "text"],
      ["outcome", (r) => tag(readable(r.outcome) || "–", good(r) ? "good" : bad(r) ? "bad" : "")], ["foretold", (r) => us(r.foretold_us), "number"], ["measured", (r) => us(r.measured_us), "number"],
      ["cost", (r) => us(r.costs_us), "number"], ["trigger", (r) => r.trigger, "code"], ["not chosen", (r) => readable(r.considered) || "–", "text"],
    ], "No decision since the server was started. The autopilot decides when the load shows that a change pays.")));
  };
  live.refresh = draw;
  await draw();
}
