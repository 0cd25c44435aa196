// The run's incidents and its nodes.

import { h, name, replace, section, table } from "../../dom.js";
import { ago, amount, bytes, count, number, words } from "../../format.js";
import { to } from "../../route.js";
import { incidentTable } from "../incidents.js";

export function watched(context) {
  const found = h("div");
  const hosts = h("div");
  const sights = h("div");
  return {
    incidents: section("Incidents", "incidents", found, sights),
    nodes: section("Nodes", "nodes", hosts),
    draw(view) {
      replace(found, incidentTable(view.incidents, { now: view.whole.end, again: () => context.again(), empty: "Nothing was flagged." }));
    },
    drawSights(rows) {
      const blind = rows.filter((row) => row.state === "blind");
      replace(sights, rows.length === 0 ? null : h("details", { "data-key": "sights" }, h("summary", null, `${count(rows.length, "detector")} look, ${blind.length ? `${number(blind.length)} of them blind` : "none of them is blind"}`),
        table("What the detectors see", [
          { title: "detector", cell: (row) => words(row.detector) },
          { title: "state", cell: (row) => h("span", { class: "status", css: { "--key": `var(--${{ armed: "kept", blind: "restart" }[row.state] ?? "idle"})` } }, words(row.state)) },
          { title: "why", wide: true, cell: (row) => name(row.reason || "–", 160) },
          { title: "looked", num: true, cell: (row) => number(row.evaluations) },
          { title: "found", num: true, cell: (row) => number(row.verdicts) },
        ], [...blind, ...rows.filter((row) => row.state !== "blind")], { class: "cards" })));
    },
    drawNodes(view) {
      const order = { dead: 0, lost: 1, suspect: 2, alive: 3, gone: 4 };
      const rows = [...view.nodes].sort((a, b) => (order[a.state] ?? 5) - (order[b.state] ?? 5));
      replace(hosts, nodeTable(rows, Date.now() / 1000));
    },
  };
}

export function nodeTable(rows, now) {
  return table("Nodes, those in trouble first", [
    { title: "node", cell: (row) => h("a", { href: to(["nodes", row.node]), "data-key": `node ${row.node}` }, name(row.node, 40)) },
    { title: "state", cell: (row) => h("span", { class: "status", css: { "--key": `var(--${{ alive: "kept", suspect: "restart", dead: "lost", lost: "lost" }[row.state] ?? "idle"})` } }, words(row.state)) },
    { title: "since", cell: (row) => ago(row.state_since, now) },
    { title: "heard", cell: (row) => ago(row.last_heard_at, now) },
    { title: "step", num: true, cell: (row) => number(row.step) },
    { title: "ranks", num: true, cell: (row) => number(row.ranks_alive) },
    { title: "to send", num: true, cell: (row) => bytes(row.queue_bytes) },
    { title: "dropped", num: true, cell: (row) => number(row.dropped) },
    { title: "clock", num: true, cell: (row) => (row.clock_offset_s === null ? "–" : `${amount(row.clock_offset_s)} s`) },
    { title: "agent", cell: (row) => name(row.agent_version ?? "–", 20) },
  ], rows.slice(0, 200), { empty: "No agent told of any.", class: "cards" });
}
