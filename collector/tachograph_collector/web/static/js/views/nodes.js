// Nodes: which ones trouble runs, and one with what is known of it.

import { encoded, get, Refused } from "../api.js";
import { h, name, replace, section, table } from "../dom.js";
import { ago, amount, duration, number, time, words } from "../format.js";
import { poll } from "../live.js";
import { to } from "../route.js";
import { incidentTable } from "./incidents.js";

const NONE = "This collector keeps no record of nodes yet. A run's own page lists its nodes.";

export function nodes(root, route, signal, fail) {
  const list = h("div");
  replace(root, h("h1", null, "Nodes"), list);
  poll(signal, 15, async () => {
    try {
      const told = await get("v1/nodes", { limit: 500 }, signal);
      const now = Date.now() / 1000;
      replace(list, table("Nodes", columnsOf(told.nodes, now), told.nodes, { empty: "no agent told of any" }));
    } catch (error) {
      if (!(error instanceof Refused && error.status === 404)) throw error;
      replace(list, h("p", { class: "quiet" }, NONE));
    }
  }, fail);
}

/** The node with its link, then whatever plain values the rows have. */
function columnsOf(rows, now) {
  const keys = [...new Set(rows.flatMap((row) => Object.keys(row)))].filter((key) => key !== "node" && rows.some((row) => row[key] !== null && typeof row[key] !== "object"));
  return [
    { title: "node", cell: (row) => h("a", { href: to(["nodes", row.node]), "data-row": true, "data-key": `node ${row.node}` }, name(row.node, 48)) },
    ...keys.map((key) => ({ title: words(key.replace(/_(s|at)$/, "")), num: rows.some((row) => typeof row[key] === "number") && !key.endsWith("_at"), cell: (row) => plain(key, row[key], now) })),
  ];
}

/** A value by the unit that its name ends in. */
export function plain(key, value, now) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value !== "number") return typeof value === "object" ? name(JSON.stringify(value), 300) : name(value, 120);
  if (/_at$|_since$/.test(key)) return ago(value, now);
  if (/_s$/.test(key)) return duration(value);
  return Number.isInteger(value) ? number(value) : amount(value);
}

export function node(root, route, signal, fail) {
  const title = route.path[1];
  const body = h("div");
  replace(root, h("h1", null, "Node ", name(title)), body);
  poll(signal, 15, async () => {
    const now = Date.now() / 1000;
    let told = null;
    try {
      const answer = await get(`v1/nodes/${encoded(title)}`, {}, signal);
      told = answer.node && typeof answer.node === "object" ? { ...answer, ...answer.node } : answer;
    } catch (error) {
      if (!(error instanceof Refused && error.status === 404)) throw error;
      replace(body, h("p", { class: "quiet" }, error.message === "Not Found" ? NONE : error.message));
      return;
    }
    const facts = Object.entries(told).filter(([key, value]) => key !== "node" && key !== "next" && value !== null && typeof value !== "object");
    const lists = Object.entries(told).filter(([key, value]) => key !== "node" && Array.isArray(value) && value.length);
    replace(body, h("dl", { class: "facts" }, facts.map(([key, value]) => [h("dt", null, words(key)), h("dd", null, /_at$|_since$/.test(key) ? `${time(value, true)} UTC, ${ago(value, now)}` : plain(key, value, now))])),
      lists.map(([key, rows]) => section(capital(words(key)), `list-${key}`, rowsOf(key, rows, now))));
  }, fail);
}

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

function rowsOf(key, rows, now) {
  if (typeof rows[0] !== "object") return h("p", null, rows.map((each) => [name(each), " "]));
  if (rows[0].detector && rows[0].severity) return incidentTable(rows, { now, withRun: true });
  const keys = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  return table(words(key), keys.map((each) => ({ title: words(each), cell: (row) => (each === "run" && typeof row.run === "string" ? h("a", { href: to(["runs", row.run]) }, name(row.run, 48)) : /_at$|^at$/.test(each) && typeof row[each] === "number" ? time(row[each], true) : plain(each, row[each], now)) })), rows.slice(0, 200));
}
