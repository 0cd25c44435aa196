// All runs: what they cost by account and cause, and each with where its time went.

import { get, getIfThere } from "../api.js";
import { floating, legend, stacked } from "../charts/bars.js";
import { ACCOUNTS } from "../charts/theme.js";
import { h, name, replace, section, table } from "../dom.js";
import { ago, amount, count, duration, number, percent, time, words } from "../format.js";
import { poll, settled } from "../live.js";
import { stay, to } from "../route.js";
import { byWeight, isOpen } from "../words.js";

const A_PAGE = 100;
const WINDOWS = [["1", "24 hours"], ["7", "7 days"], ["30", "30 days"], ["", "all time"]];
const ORDERS = {
  latest: () => 0,
  lost: (a, b) => b.lost_s * (b.world_size ?? 1) - a.lost_s * (a.world_size ?? 1),
  gone: (a, b) => (b.wall_s - b.kept_s) * (b.world_size ?? 1) - (a.wall_s - a.kept_s) * (a.world_size ?? 1),
  goodput: (a, b) => (a.goodput ?? 2) - (b.goodput ?? 2),
};
const TROUBLES = { failure: "down", hang: "stalled", restart_loop: "restarting again and again" };
const ORIGINS = [["live", "live"], ["rehearsal", "rehearsals"], ["replay", "replays"], ["all", "any origin"]];

export function fleet(root, route, signal, fail) {
  const asked = { days: route.params.get("days") ?? "7", origin: route.params.get("origin") ?? "", name: route.params.get("name") ?? "", status: route.params.get("status") ?? "", order: route.params.get("order") ?? "" };
  let most = A_PAGE;
  const totals = h("div", { class: "tiles" });
  const causes = h("div");
  const list = h("div");
  const wrong = h("div");
  let again = () => {};

  const changed = settled(200, () => {
    stay(["fleet"], { ...asked, days: asked.days === "7" ? "" : asked.days || "all" });
    most = A_PAGE;
    again();
  });
  if (asked.days === "all") asked.days = "";
  const pick = (key, label, choices) => h("label", null, label, h("select", { on: { change: (event) => { asked[key] = event.target.value; changed(); } } },
    choices.map(([value, title]) => h("option", { value, selected: value === asked[key] }, title))));
  const find = h("input", { type: "search", value: asked.name, placeholder: "name, * and ?", on: { input: (event) => { asked.name = event.target.value; changed(); } } });

  const every = section("Runs", "runs", legend(ACCOUNTS), list);
  every.hidden = true; // until it is known what stands above it
  replace(root, h("h1", null, "Fleet"),
    h("form", { class: "filters", on: { submit: (event) => event.preventDefault() } },
      pick("days", "Window", WINDOWS), pick("origin", "Origin", [["", "any; sums of live"], ...ORIGINS]),
      pick("status", "Status", [["", "any"], ...["running", "completed", "failed", "cancelled", "abandoned"].map((each) => [each, each])]),
      h("label", null, "Name", find),
      pick("order", "Order of those shown", [["", "latest start"], ["gone", "most GPU-h not kept"], ["lost", "most GPU-h lost"], ["goodput", "least goodput"]])),
    wrong, totals, causes, every);

  const origins = () => (asked.origin === "all" ? ORIGINS.slice(0, 3).map(([key]) => key) : asked.origin ? [asked.origin] : ["live"]);

  again = poll(signal, 10, async (signal) => {
    const pattern = asked.name && !/[*?]/.test(asked.name) ? `*${asked.name}*` : asked.name;
    const which = { name: pattern, status: asked.status, origin: asked.origin === "" ? null : origins() };
    const now = Date.now() / 1000;
    const since = asked.days ? now - Number(asked.days) * 86400 : null;
    const [runs, open, told] = await Promise.all([
      get("v1/runs", { ...which, limit: most }, signal),
      getIfThere("v1/incidents", { open: true, limit: 1000 }, signal),
      get("v1/fleet", { since: since && Math.floor(since / 60) * 60, origin: origins(), name: pattern }, signal),
    ]);
    runs.runs.sort(ORDERS[asked.order] ?? ORDERS.latest);
    replace(totals, tiles(told, open));
    replace(causes, told.causes.length ? causesOf(told) : null);
    replace(list, runsTable(runs, open, () => { most += A_PAGE * 4; again(); }));
    every.hidden = false;
    wrong.replaceChildren();
  }, (error) => (error.status === 422 ? replace(wrong, h("p", { class: "problem", role: "alert" }, error.message)) : fail(error)));
}

function tiles(told, open) {
  const held = told.gpu_hours.held;
  const gone = held - told.gpu_hours.kept;
  const found = open ? open.incidents.filter(isOpen) : null;
  const worst = found && byWeight(found)[0];
  return [
    tile("GPU goodput", percent(told.gpu_goodput), told.runs ? `${count(told.runs, "run")} in the window` : "no live run in the window"),
    tile("Not kept", `${amount(gone)} GPU-h`, `of ${amount(held)} held${told.money.held ? `; ${amount(told.money.held - told.money.kept)} in money` : ""}`),
    tile("Lost work", `${amount(told.gpu_hours.lost)} GPU-h`, duration(told.accounts_s.lost)),
    tile("Restarts", `${amount(told.gpu_hours.restart)} GPU-h`, duration(told.accounts_s.restart)),
    found && tile("Open incidents", h("a", { href: to(["incidents"]) }, `${open.next ? "more than " : ""}${number(found.length)}`), worst ? `worst: ${worst.severity}` : "none", worst?.severity === "critical" ? "bad" : ""),
  ];
}

export function tile(title, figure, behind, role = "") {
  return h("div", { class: `tile ${role}` }, h("span", { class: "title" }, title), h("strong", null, figure), h("span", { class: "behind" }, behind));
}

function causesOf(told) {
  const byGpu = told.gpu_hours.held > 0;
  const of = (row) => (byGpu ? row.gpu_hours : row.wall_s);
  const rows = told.causes.filter((row) => row.account !== "kept").slice(0, 12);
  const most = Math.max(...rows.map(of), 1e-9);
  const missing = [told.runs_without_gpus && `${count(told.runs_without_gpus, "run")} without GPUs`, told.runs_without_price && `${count(told.runs_without_price, "run")} without a price`].filter(Boolean);
  return section("What was not kept, by cause", "causes", table("What was not kept, by cause", [
    { title: "cause", cell: (row) => name(`${row.account}: ${words(row.cause ?? row.sub)}${row.cause && row.cause !== row.sub ? ` (${words(row.sub)})` : ""}`) },
    { title: "", wide: true, cell: (row) => floating(0, of(row) / most, row.account) },
    { title: "time", num: true, cell: (row) => duration(row.wall_s) },
    { title: "GPU-h", num: true, cell: (row) => amount(row.gpu_hours) },
    { title: "money", num: true, cell: (row) => (told.money.held ? amount(row.money) : "–") },
  ], rows, { class: "cards" }), missing.length ? h("p", { class: "quiet" }, `Not in those sums: ${missing.join(", ")}.`) : null);
}

/** What an open incident says of a run that is said to run: the word for it, or null. */
function doing(row, told) {
  if (row.status !== "running") return null;
  const found = new Set((told?.incidents ?? []).filter((each) => isOpen(each) && each.run === row.run).map((each) => each.detector));
  return Object.entries(TROUBLES).find(([detector]) => found.has(detector))?.[1] ?? null;
}

function runsTable(runs, told, more) {
  if (!runs.runs.length) return h("p", { class: "quiet" }, "No such run yet. An agent's first event, or ", h("code", null, "tachograph replay LOG --into URL"), ", makes one.");
  const now = Date.now() / 1000;
  return [table("Runs", [
    { title: "run", wide: true, cell: (row) => h("a", { href: to(["runs", row.run]), "data-row": true, "data-key": `run ${row.run}` }, name(row.run, 48)) },
    { title: "status", cell: (row) => [status(row.status, doing(row, told)), row.origin === "live" ? null : h("span", { class: "tag" }, row.origin)] },
    { title: "where its time went", wide: true, cell: (row) => stacked(ACCOUNTS.map((account) => ({ name: account, role: account, share: row.wall_s ? row[`${account}_s`] / row.wall_s : 0 }))) },
    { title: "goodput", num: true, cell: (row) => percent(row.goodput) },
    { title: "lost", num: true, cell: (row) => duration(row.lost_s) },
    { title: "open", num: true, cell: (row) => (row.open_incidents ? h("a", { href: to(["incidents"], { run: row.run }), "data-key": `open ${row.run}`, "aria-label": `${count(row.open_incidents, "open incident")} of ${row.run}` }, number(row.open_incidents)) : "") },
    { title: "failures", num: true, cell: (row) => number(row.failures) },
    { title: "GPUs", num: true, cell: (row) => number(row.world_size) },
    { title: "began", cell: (row) => h("span", { class: "nowrap" }, time(row.start)) },
    { title: "lasts", num: true, cell: (row) => duration(row.wall_s) },
    { title: "heard", cell: (row) => (row.status === "running" ? h("span", { class: "nowrap" }, ago(row.last_heard, now)) : "") },
  ], runs.runs, { class: "runs cards" }), runs.next ? h("button", { type: "button", on: { click: more }, "data-key": "more" }, "Show more") : null];
}

/** The status of a run in the colour of what it means; `trouble` is what is known beside. */
export function status(text, trouble = null) {
  const role = trouble ? "restart" : ({ running: "kept", failed: "lost", abandoned: "lost" }[text] ?? "idle");
  return h("span", { class: "status", css: { "--key": `var(--${role})` } }, trouble ? `${text}, ${trouble}` : text);
}
