// What was flagged: the list, and one incident with its evidence, its cost, what to do, and who has seen it.

import { all, encoded, get, post, Refused } from "../api.js";
import { h, name, replace, say, section, table } from "../dom.js";
import { ago, amount, duration, number, roughly, time, words } from "../format.js";
import { poll, settled } from "../live.js";
import { stay, to } from "../route.js";
import { stored } from "../tools.js";
import { byWeight, isOpen } from "../words.js";

const SEVERITIES = { critical: "lost", warning: "restart" };

export function incidents(root, route, signal, fail) {
  const asked = Object.fromEntries(["open", "severity", "detector", "run", "node"].map((key) => [key, route.params.get(key) ?? (key === "open" ? "true" : "")]));
  const list = h("div");
  let again = () => {};
  const changed = settled(250, () => { stay(["incidents"], asked); again(); });
  const field = (key, label) => h("label", null, label, h("input", { type: "search", value: asked[key], on: { input: (event) => { asked[key] = event.target.value.trim(); changed(); } } }));
  const pick = (key, label, choices) => h("label", null, label, h("select", { on: { change: (event) => { asked[key] = event.target.value; changed(); } } },
    choices.map(([value, title]) => h("option", { value, selected: value === asked[key] }, title))));
  replace(root, h("h1", null, "Incidents"), h("form", { class: "filters", on: { submit: (event) => event.preventDefault() } },
    pick("open", "Which", [["true", "open"], ["false", "over"], ["", "all"]]),
    pick("severity", "Severity", [["", "any"], ["critical", "critical"], ["warning", "warning"], ["info", "info"]]),
    field("run", "Run"), field("node", "Node"), field("detector", "Detector")), list);
  again = poll(signal, 10, async (signal) => {
    try {
      const told = await all("v1/incidents", { ...asked, limit: 200 }, "incidents", 200, signal);
      replace(list, incidentTable(told.incidents, { now: Date.now() / 1000, withRun: true, again: () => again() }), told.next ? h("p", { class: "quiet" }, `The latest ${number(told.incidents.length)}; narrow the list for others.`) : null);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      replace(list, h("p", { class: "quiet" }, error.message));
    }
  }, fail);
}

/** The gravest first. `again` is called when one was acknowledged. */
export function incidentTable(rows, { now, withRun = false, again = () => {}, empty = "No such incident." }) {
  return table("Incidents, the gravest first", [
    { title: "severity", cell: (row) => h("span", { class: `severity ${row.severity}` }, row.severity) },
    { title: "what", wide: true, cell: (row) => [h("a", { href: to(["incidents", row.incident_id]), "data-row": true, "data-key": `incident ${row.incident_id}` }, name(row.summary, 160)), row.advice ? h("div", { class: "quiet" }, name(row.advice, 200)) : null] },
    withRun && { title: "run", cell: (row) => h("a", { href: to(["runs", row.run]) }, name(row.run, 40)) },
    { title: "detector", cell: (row) => words(row.detector) },
    { title: "began (UTC)", cell: (row) => h("span", { class: "nowrap" }, time(row.opened_at)) },
    { title: "lasts", cell: (row) => (isOpen(row) ? h("span", { class: "nowrap" }, `open, ${roughly(now - row.opened_at)}`) : `${duration(row.cleared_at - row.opened_at)}${row.outcome ? `, ${row.outcome}` : ""}`) },
    { title: "cost", num: true, cell: (row) => cost(row.cost) },
    { title: "seen by", cell: (row) => seenBy(row, again) },
  ].filter(Boolean), byWeight(rows), { empty, class: "cards" });
}

function seenBy(row, again) {
  if (row.acknowledged) return name(row.acknowledged.author, 30);
  if (!isOpen(row)) return row.is_silenced ? "silenced" : "";
  const author = stored("author");
  const click = async (event) => {
    const button = event.target;
    try {
      await post(`v1/incidents/${encoded(row.incident_id)}/acknowledge`, author ? { author } : {});
      say("Acknowledged");
      again();
    } catch (error) {
      button.replaceWith(h("span", { class: "quiet", role: "alert" }, error.message));
    }
  };
  return h("button", { type: "button", "data-key": `acknowledge ${row.incident_id}`, on: { click } }, "Acknowledge", h("span", { class: "unseen" }, `: ${row.summary}`));
}

function cost(told) {
  if (!told) return "–";
  return told.gpu_hours ? `${amount(told.gpu_hours)} GPU-h` : told.wall_s ? duration(told.wall_s) : "–";
}

export function incident(root, route, signal, fail) {
  const id = route.path[1];
  const path = `v1/incidents/${encoded(id)}`;
  const body = h("div");
  const wrong = h("p", { class: "wrong", role: "alert" });
  const author = h("input", { type: "text", id: "author", value: stored("author") ?? "", autocomplete: "name", maxlength: "200", on: { change: () => stored("author", author.value || null) } });
  const signed = (told) => (author.value ? { ...told, author: author.value } : told);
  const note = h("textarea", { rows: "3", id: "note" });
  let again = () => {};
  const write = (what, told) => async () => {
    try {
      await post(`${path}/${what}`, signed(told?.() ?? {}));
      wrong.textContent = "";
      note.value = "";
      say("Done");
      await again();
    } catch (error) {
      wrong.textContent = error.message;
    }
  };
  const notes = section("Notes", "notes", h("div", { id: "said-of-it" }), h("label", { class: "note", for: "note" }, "A note for others", note),
    h("div", { class: "filters" }, h("label", { for: "author" }, "Your name, where no token says it", author), h("button", { type: "button", on: { click: write("notes", () => ({ text: note.value })) } }, "Add the note")), wrong);
  notes.hidden = true; // until it is known that there is such an incident
  replace(root, body, notes);
  again = poll(signal, 10, async (signal) => {
    const told = await get(path, {}, signal);
    const now = Date.now() / 1000;
    const seen = told.acknowledged;
    const row = (term, what) => (what === null || what === undefined || what === "" ? null : [h("dt", null, term), h("dd", null, what)]);
    replace(body, h("h1", null, name(told.summary, 200)),
      h("p", { class: "state", css: { "--key": `var(--${(isOpen(told) && SEVERITIES[told.severity]) || "idle"})` } }, isOpen(told) ? `Open for ${roughly(now - told.opened_at)}` : `Over after ${duration(told.cleared_at - told.opened_at)}${told.outcome ? `: ${told.outcome}` : ""}`),
      h("dl", { class: "facts" },
        row("what to do", told.advice ? h("strong", null, name(told.advice, 400)) : null),
        row("severity", h("span", { class: `severity ${told.severity}` }, told.severity)),
        row("run", h("a", { href: to(["runs", told.run], around(told, now)), "data-key": "run" }, name(told.run))),
        row("node", told.node === null || told.node === undefined ? null : h("a", { href: to(["nodes", told.node]), "data-key": "node" }, name(told.node))),
        row("rank", Number.isInteger(told.rank) ? String(told.rank) : null),
        row("detector", `${words(told.detector)}, about ${told.subject}`),
        row("began", `${time(told.opened_at, true)} UTC, ${ago(told.opened_at, now)}`),
        row("found", told.found_at ? `${time(told.found_at, true)} UTC` : null),
        row("cost", told.cost ? `${duration(told.cost.wall_s)}, ${amount(told.cost.gpu_hours)} GPU-h, ${amount(told.cost.money)} in money${told.cost.basis ? ` (${told.cost.basis})` : ""}` : null),
        row("follows from", told.consequence_of ? h("a", { href: to(["incidents", told.consequence_of]) }, "another incident") : null),
        row("seen by", seen ? [name(seen.author), `, ${ago(seen.at, now)}`] : null),
        row("silenced", told.is_silenced ? "yes: nobody is told" : null)),
      h("p", null, seen
        ? h("button", { type: "button", "data-key": "ack", on: { click: write("unacknowledge") } }, "Take back that it was seen")
        : h("button", { type: "button", class: "main", "data-key": "ack", on: { click: write("acknowledge") } }, "Acknowledge")),
      section("Evidence", "evidence", evidence(told.evidence)));
    notes.hidden = false;
    replace(document.getElementById("said-of-it"), (told.notes ?? []).map((each) => h("p", null, h("span", { class: "quiet" }, time(each.at), " ", name(each.author), ` ${each.what}: `), name(each.text ?? "", 2000))));
  }, fail);
}

function around(told, now) {
  const end = told.cleared_at ?? Math.min(now, told.opened_at + 6 * 3600);
  return { since: Math.floor(told.opened_at - 1800), until: Math.ceil(Math.max(end, told.opened_at + 600) + 1800) };
}

function evidence(told) {
  if (!told || typeof told !== "object") return h("p", { class: "quiet" }, "none");
  const unit = told.unit ? ` ${told.unit}` : "";
  const rows = Object.entries(told).filter(([key, value]) => key !== "unit" && value !== null);
  const isPlain = (key) => ["value", "baseline", "threshold"].includes(key);
  const figure = (value) => (Number.isInteger(value) ? number(value) : amount(value));
  return table("Evidence", [
    { title: "what", cell: ([key]) => name(words(key)) },
    { title: "found", cell: ([key, value]) => (typeof value === "number" ? `${figure(value)}${isPlain(key) ? unit : ""}` : name(typeof value === "string" ? value : JSON.stringify(value), 300)) },
  ], rows, { class: "narrow" });
}
