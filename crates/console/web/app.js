// The shell: log-in, pages, the stream of samples. A page is a module that fills `main`; `live` has the samples, and the
// page's hooks: onSample (each second), refresh (each three seconds), onTheme.

import { $, ask, call, el, fail, shell } from "/ui.js";
import overview from "/overview.js";
import design from "/design.js";
import decisions from "/decisions.js";
import jobs from "/jobs.js";
import advice from "/advice.js";
import statements from "/statements.js";
import activity from "/activity.js";
import cluster from "/cluster.js";
import history from "/history.js";
import metrics from "/metrics.js";

const HOUR = 3600;
const REFRESH_MS = 3000;
const PAGES = {
  overview: ["Overview", overview], design: ["Design", design], decisions: ["Decisions", decisions], jobs: ["Jobs", jobs], advice: ["Advice", advice],
  statements: ["Statements", statements], activity: ["Activity", activity], cluster: ["Cluster", cluster], history: ["History", history], metrics: ["Metrics", metrics],
};
const samples = [];
const live = { samples, onSample: null, refresh: null, onTheme: null };
let stream = null, shown = 0;

function nothing() { live.onSample = live.refresh = live.onTheme = null; }

async function show() {
  const name = location.hash.slice(1) in PAGES ? location.hash.slice(1) : "overview";
  const [title, page] = PAGES[name];
  document.title = `${title} – Isomer`;
  for (const link of $("nav").children) {
    if (link.hash === `#${name}`) { link.setAttribute("aria-current", "page"); link.scrollIntoView({ block: "nearest", inline: "nearest" }); }
    else link.removeAttribute("aria-current");
  }
  nothing();
  const main = $("main");
  main.replaceChildren();
  shown += 1;
  try { await page(main, live); } catch (error) { fail(error); }
}
/** After an action: the page is asked for anew, or only its parts that refresh. */
shell.again = async () => { if (live.refresh) await refresh(); else await show(); };

let asking = null;
async function refresh() {
  const page = shown;
  // One question at a time: a slow server is not asked again meanwhile.
  asking ??= live.refresh?.().then(
    () => { if (page === shown) document.querySelector("main > .notice.lost")?.remove(); },
    (error) => { if (page === shown && !stream?.lost) fail(error); }).finally(() => { asking = null; });
  await asking;
}
setInterval(() => { if (live.refresh && !document.hidden && stream && !stream.lost) refresh(); }, REFRESH_MS);

function showLogin(why = "") {
  if (stream) { stream.close(); stream = null; }
  nothing();
  $("nav").replaceChildren();
  $("logout").hidden = true;
  $("user").textContent = $("state").textContent = "";
  $("main").replaceChildren($("login").content.cloneNode(true));
  const form = $("login-form");
  form.querySelector(".error").textContent = why;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try { await call("/api/login", Object.fromEntries(new FormData(form))); await start(); }
    catch (error) { form.querySelector(".error").textContent = error.message; }
  });
  form.user.focus();
}
shell.login = showLogin;

function watch() {
  if (stream) stream.close();
  const own = stream = new EventSource("/api/live");
  const state = $("state");
  own.addEventListener("history", (event) => {
    samples.splice(0, samples.length, ...JSON.parse(event.data));
    live.onSample?.();
  });
  own.addEventListener("sample", (event) => {
    samples.push(JSON.parse(event.data));
    if (samples.length > HOUR) samples.shift();
    if (!document.hidden) live.onSample?.();
  });
  own.onopen = () => {
    if (own.lost) show();
    own.lost = false;
    state.textContent = "live"; state.className = "live";
  };
  own.onerror = () => {
    own.lost = true;
    state.textContent = "connection lost, trying again"; state.className = "lost";
    // A server that was restarted does not know the session.
    if (own.readyState === EventSource.CLOSED) setTimeout(() => { if (stream === own) again(); }, 2000);
  };
}

/** Tries until the server answers; without a session it shows the log-in. */
async function again() {
  try { await call("/api/me"); watch(); } catch (error) {
    if (error.status === 401) showLogin("The server has restarted, and its sessions have ended. Log in again.");
    else setTimeout(again, 2000);
  }
}

async function start() {
  let me;
  try { me = await call("/api/me"); } catch (error) { if (error.status !== 401) fail(error); return; }
  $("user").textContent = me.user;
  $("logout").hidden = false;
  const [rights] = await ask("rights").catch(() => [{}]);
  shell.superuser = rights?.is_superuser === "t";
  shell.may = shell.superuser || rights?.may_steer === "t";
  $("nav").replaceChildren(...Object.entries(PAGES).map(([name, [title]]) => el("a", { href: `#${name}` }, title)));
  watch();
  await show();
}

$("logout").addEventListener("click", async () => { await call("/api/logout", {}); showLogin(); });
window.addEventListener("hashchange", () => { $("main").focus({ preventScroll: true }); scrollTo(0, 0); show(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => live.onTheme?.());
start();
