// What all pages share: elements, questions, actions, numbers and times as people read them.

export const $ = (id) => document.getElementById(id);

/** An element with attributes, and children that are elements or text. */
export function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

/** Set by the shell: shows the log-in, and shows the page anew. */
export const shell = { login: () => {}, again: async () => {} };

export class Failure extends Error {
  constructor(status, answer) {
    super([answer.message, answer.detail, answer.hint].filter(Boolean).join(" — "));
    this.status = status;
    this.code = answer.code;
  }
}

export async function call(path, body) {
  const post = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  const response = await fetch(path, body === undefined ? {} : post);
  const answer = (response.headers.get("content-type") || "").includes("json") ? await response.json() : {};
  if (response.status === 401 && path !== "/api/login") { shell.login(path === "/api/me" ? "" : "Your session has ended, or the server has restarted. Log in again."); throw new Failure(401, { message: "log in first" }); }
  if (!response.ok) throw new Failure(response.status, { message: response.statusText, ...answer });
  return answer;
}

/** The rows of a question, as objects of texts. */
export async function ask(name, part = {}) {
  const { columns, rows } = await call(`/api/ask/${name}?${new URLSearchParams(part)}`);
  return rows.map((row) => Object.fromEntries(columns.map((column, at) => [column, row[at]])));
}

/** The settings of the database, by name. */
export const settings = async () => Object.fromEntries((await ask("settings")).map((s) => [s.name, s.value]));

// Numbers and times as people read them. A missing value is a dash.
const missing = (n) => n === null || n === undefined || n === "" || Number.isNaN(Number(n));
export const whole = (n) => (missing(n) ? "–" : Math.round(Number(n)).toLocaleString("en"));
export const short = (n) => {
  if (missing(n)) return "–";
  const value = Number(n);
  if (Math.abs(value) < 10_000) return Math.round(value).toLocaleString("en");
  return new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(value);
};
export const percent = (n) => (missing(n) ? "–" : `${(100 * Number(n)).toFixed(Number(n) > 0.9995 ? 0 : 1)} %`);
export function ms(n) {
  if (missing(n)) return "–";
  const value = Number(n), size = Math.abs(value);
  if (size < 0.0005) return "0 ms";
  if (size < 1) return `${Math.round(value * 1000)} µs`;
  if (size < 10) return `${value.toFixed(2)} ms`;
  if (size < 10_000) return `${whole(value)} ms`;
  return seconds(value / 1000);
}
export const us = (n) => (missing(n) ? "–" : ms(Number(n) / 1000));
export function seconds(n) {
  if (missing(n)) return "–";
  const value = Number(n);
  if (value < 60) return `${value < 10 ? value.toFixed(1) : Math.round(value)} s`;
  if (value < 3600) return `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
  return `${Math.floor(value / 3600)} h ${Math.round((value % 3600) / 60)} min`;
}
export function bytes(n) {
  if (missing(n)) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0, left = Number(n);
  while (left >= 1024 && at < units.length - 1) { left /= 1024; at += 1; }
  return `${left < 10 && at > 0 ? left.toFixed(1) : Math.round(left)} ${units[at]}`;
}

/** Steps of axes in bytes. */
bytes.incrs = Array.from({ length: 40 }, (_, at) => 2 ** at);
/** Durations in texts of the server (`12345 us`), as people read them. */
export const readable = (text) => (text ?? "").replace(/(-?\d+) us\b/g, (_, n) => us(n));

/** A time of SQL as a date. */
export const date = (text) => (text ? new Date(text.replace(" ", "T").replace(/([+-]\d\d)$/, "$1:00")) : null);
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
/** A time of SQL: of today the time of day, else with the day. */
export function when(text) {
  const at = date(text);
  if (!at || Number.isNaN(at.getTime())) return "–";
  const isToday = at.toDateString() === new Date().toDateString();
  return isToday ? clock.format(at) : `${day.format(at)} ${clock.format(at)}`;
}
export const timeOf = (unix) => clock.format(new Date(unix * 1000));

const siteNumber = (site) => Number(String(site).replace(/\D/g, "")) || 0;
/** The class, and the variable, of a site's colour. */
export const colour = (site) => `c${(siteNumber(site) + 7) % 8}`;
export const ink = (site) => `--s${(siteNumber(site) + 7) % 8}`;
export const site = (name) => el("span", { class: "site" }, el("i", { class: colour(name) }), name);
export const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
export const isDark = () => matchMedia("(prefers-color-scheme: dark)").matches;

/** A table of these columns: [title, value of a row, class of its cells]. */
export function table(rows, columns, none, chosen) {
  if (rows.length === 0) return el("p", { class: "none" }, none);
  const head = columns.map(([title, , kind]) => el("th", { class: kind || null, scope: "col" }, title));
  const cell = (row) => ([, value, kind]) => {
    const shown = value(row);
    return el("td", { class: kind || null }, shown instanceof Node ? shown : String(shown ?? ""));
  };
  const body = rows.map((row) => el("tr", { class: chosen?.(row) ? "chosen" : null }, ...columns.map(cell(row))));
  // Wide tables scroll by themselves, with the keyboard as well.
  return el("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Table" },
    el("table", {}, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...body)));
}

export const part = (title, lead, ...children) =>
  el("section", {}, el("div", { class: "head" }, el("h2", {}, title), lead && (lead instanceof Node ? lead : el("p", { class: "lead" }, lead))), ...children);
export const fields = (row) => Object.keys(row || {}).map((name) => [name.replaceAll("_", " "), (r) => r[name] ?? "–"]);
export const tag = (text, kind) => el("span", { class: `tag ${kind || ""}` }, text);
export const row = (...children) => el("div", { class: "row" }, ...children);
export function bar(parts) {
  const all = parts.reduce((sum, [, count]) => sum + count, 0) || 1;
  const one = ([name, count]) => {
    const piece = el("i", { class: colour(name), title: `${name}: ${whole(count)}` });
    piece.style.width = `${(100 * count) / all}%`;
    return piece;
  };
  return el("div", { class: "bar", role: "img", "aria-label": parts.map(([name, n]) => `${name}: ${n}`).join(", ") }, ...parts.map(one));
}
/** A share with a small bar. */
export function meter(share, text) {
  if (missing(share)) return "–";
  const value = Number(share), kind = value > 0.9 ? "bad" : value > 0.75 ? "warn" : "";
  const fill = el("i");
  fill.style.width = `${Math.min(100, 100 * value)}%`;
  return el("span", { class: `meter ${kind}` }, text ?? percent(value), el("i", { "aria-hidden": "true" }, fill));
}

export function toast(text) {
  const box = $("toast");
  box.textContent = text;
  box.classList.add("shown");
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => box.classList.remove("shown"), 5000);
}

export function fail(error) {
  if (error.status === 401) return;
  document.querySelector("main > .notice")?.remove();
  $("main").prepend(el("p", { class: "notice", role: "alert" }, error.message));
}

/** Asks in a dialog. Resolves to the text that was entered ("" without a field), or null. The field begins with a value,
 *  and may be one of `choices`. */
export function confirmed(title, text, { field, value, choices, action = title, danger = false } = {}) {
  const dialog = $("dialog");
  const chosen = () => el("select", { name: "text" }, ...choices.map((name) => el("option", { selected: name === value }, name)));
  const input = field && (choices ? chosen() : value === undefined ? el("textarea", { name: "text", rows: 2, maxlength: 500 }) : el("input", { name: "text", value, maxlength: 100 }));
  return new Promise((resolve) => {
    const form = el("form", { method: "dialog" },
      el("h2", { id: "dialog-title" }, title), el("p", {}, text), field && el("label", {}, field, input),
      row(el("button", { value: "no", type: "button", onclick: () => dialog.close("no") }, "Keep"),
        el("button", { value: "yes", class: danger ? "danger" : "primary" }, action)));
    dialog.replaceChildren(form);
    dialog.returnValue = "no";
    dialog.onclose = () => resolve(dialog.returnValue === "yes" ? (input ? input.value : "") : null);
    dialog.showModal();
    (input || form.querySelector("[value=yes]")).focus();
  });
}

/** Draws anew what is in an element; what had the focus has it again. */
export function redraw(box, ...children) {
  const name = (e) => e.getAttribute("aria-label") || e.textContent;
  const focused = box.contains(document.activeElement) ? name(document.activeElement) : null;
  box.replaceChildren(...children);
  if (focused !== null) [...box.querySelectorAll("button, summary, [tabindex]")].find((e) => name(e) === focused)?.focus();
}

/** Does something at the server, says so, and shows the page anew. */
export async function act(action, said) {
  try {
    const { done } = await call("/api/act", action);
    toast(said || `Done: ${done}`);
    await shell.again();
  } catch (error) { fail(error); await shell.again(true); fail(error); }
}

/** A button of an action; `asks` are the arguments of a dialog before it. */
export function button(title, action, { asks, kind, label } = {}) {
  return el("button", { class: kind || null, "aria-label": label || null, onclick: async () => {
    if (asks && (await confirmed(...asks)) === null) return;
    await act(action);
  } }, title);
}
