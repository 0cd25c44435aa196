// Nodes over runs: which ones failures begin on more often than luck explains, and one with all that is held against it.

import { encoded, get } from "../api.js";
import { floating } from "../charts/bars.js";
import { h, name, replace, section, table } from "../dom.js";
import { ago, amount, count, duration, number, time, words } from "../format.js";
import { poll, settled } from "../live.js";
import { stay, to } from "../route.js";
import { incidentTable } from "./incidents.js";

const AT_FIRST = 50;
const ROLES = { sure: "lost", suspect: "restart" };
const ORIGINS = ["live", "rehearsal", "replay"];

export function nodes(root, route, signal, fail) {
  const asked = { name: route.params.get("name") ?? "", origin: route.params.get("origin") ?? "live" };
  const list = h("div");
  let most = AT_FIRST;
  let again = () => {};
  const changed = settled(250, () => { stay(["nodes"], asked); again(); });
  replace(root, h("h1", null, "Nodes"),
    h("p", { class: "quiet" }, "The most suspect first: what happened on a node counts less the longer ago it was, and luck is told from a pattern where it is known how long the node ran."),
    h("form", { class: "filters", on: { submit: (event) => event.preventDefault() } },
      h("label", null, "Name", h("input", { type: "search", value: asked.name, on: { input: (event) => { asked.name = event.target.value.trim(); changed(); } } })),
      h("label", null, "Origin", h("select", { on: { change: (event) => { asked.origin = event.target.value; changed(); } } }, ORIGINS.map((each) => h("option", { value: each, selected: each === asked.origin }, each))))), list);
  again = poll(signal, 15, async (signal) => {
    const pattern = asked.name && !/[*?]/.test(asked.name) ? `*${asked.name}*` : asked.name;
    const told = await get("v1/nodes", { limit: most, name: pattern, origin: asked.origin }, signal);
    const highest = Math.max(...told.nodes.map((row) => row.score), 1e-9);
    replace(list, table("Nodes, the most suspect first", [
      { title: "node", cell: (row) => h("a", { href: to(["nodes", row.node]), "data-row": true, "data-key": `node ${row.node}` }, name(row.node, 48)) },
      { title: "how sure", cell: sure },
      { title: "held against it", wide: true, cell: (row) => floating(0, row.score / highest, ROLES[row.how_sure] ?? "idle") },
      { title: "score", num: true, cell: (row) => amount(row.score) },
      { title: "failures", num: true, cell: (row) => `${number(row.failures)}${row.expected_failures === null ? "" : ` (${amount(row.expected_failures)} expected)`}` },
      { title: "Xids", num: true, cell: (row) => number(row.xids) },
      { title: "slow", num: true, cell: (row) => number(row.straggler) },
      { title: "health", num: true, cell: (row) => number(row.health) },
      { title: "runs", num: true, cell: (row) => number(row.runs) },
      { title: "last", cell: (row) => h("span", { class: "nowrap" }, ago(row.last_at, told.as_of)) },
    ], told.nodes, { empty: "No agent told of any such node.", class: "cards" }), told.next ? h("button", { type: "button", "data-key": "more", on: { click: () => { most += 450; again(); } } }, "Show more") : null);
  }, fail);
}

function sure(row) {
  return h("span", { class: "status", css: { "--key": `var(--${ROLES[row.how_sure] ?? "idle"})` } }, row.how_sure);
}

export function node(root, route, signal, fail) {
  const title = route.path[1];
  const body = h("div");
  replace(root, h("h1", null, "Node ", name(title)), body);
  const path = ["", ".", ".."].includes(title) ? `v1/nodes/-?node=${encodeURIComponent(title)}` : `v1/nodes/${encoded(title)}`;
  poll(signal, 15, async (signal) => {
    const [told, flagged] = await Promise.all([get(path, { origin: ORIGINS }, signal), get("v1/incidents", { node: title, limit: 100 }, signal)]);
    replace(body,
      h("p", { class: "state", css: { "--key": `var(--${ROLES[told.how_sure] ?? "idle"})` } }, name(told.sentence, 400)),
      h("dl", { class: "facts" }, [
        ["how sure", sure(told)],
        ["suspicion", `place ${number(told.rank)} of ${count(told.num_nodes, "node")}, score ${amount(told.score)}`],
        ["failures", `${number(told.failures)} began here${told.expected_failures === null ? "" : `; ${amount(told.expected_failures)} would, were all nodes alike`}`],
        told.chance !== null && ["by luck", `${amount(told.chance)} for this node${told.chance_of_any === null ? "" : `, ${amount(told.chance_of_any)} for any of them`}`],
        ["ran for", told.exposure_s === null ? "not known: no agent told when it ran" : duration(told.exposure_s)],
        ["Xids", `${number(told.xids)} of the hardware, ${number(told.application_xids)} of the application`],
        ["health", `${count(told.health, "finding")}, ${count(told.corruption, "sign")} of silent corruption`],
        ["slow", `${count(told.straggler, "time")} a straggler, ${count(told.episodes, "short episode")}`],
        ["looked at", `${time(told.since)} to ${time(told.until)} UTC; a mark counts half after ${number(told.half_life_days, Number.isInteger(told.half_life_days) ? 0 : 1)} days`],
      ].filter(Boolean).map(([term, what]) => [h("dt", null, term), h("dd", null, what)])),
      section("What is held against it", "marks", table("What is held against it, the latest first", [
        { title: "when (UTC)", cell: (row) => h("span", { class: "nowrap" }, time(row.at)) },
        { title: "what", cell: (row) => words(row.kind) },
        { title: "run", cell: (row) => h("a", { href: to(["runs", row.run], { since: Math.floor(row.at - 1800), until: Math.ceil(row.at + 1800) }) }, name(row.run, 40)) },
        { title: "said", wide: true, cell: (row) => name(row.detail, 200) },
        { title: "weight", num: true, cell: (row) => amount(row.weight) },
      ], told.marks.slice(0, 200), { empty: "Nothing.", class: "cards" })),
      section("Incidents", "incidents", incidentTable(flagged.incidents, { now: Date.now() / 1000, withRun: true })),
      section("Runs that it was in", "stays", table("Runs that it was in", [
        { title: "run", cell: (row) => h("a", { href: to(["runs", row.run]), "data-row": true }, name(row.run, 48)) },
        { title: "origin", cell: (row) => row.origin },
        { title: "state", cell: (row) => words(row.state) },
        { title: "first heard (UTC)", cell: (row) => time(row.first_heard_at) },
        { title: "last heard (UTC)", cell: (row) => time(row.last_heard_at) },
      ], told.stays, { empty: "No agent told of any.", class: "cards" })));
  }, fail);
}
