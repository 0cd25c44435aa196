// What stopped it and how it came back, phase by phase; its saves; its attempts.

import { legend, stacked } from "../../charts/bars.js";
import { lines } from "../../charts/lines.js";
import { PHASES } from "../../charts/theme.js";
import { h, name, replace, section, table } from "../../dom.js";
import { bytes, count, duration, number, time, words } from "../../format.js";
import { stop } from "../../words.js";

const SHOWN = 50;
const AT_FIRST = 12;

export function failures({ zoom }) {
  const restarts = h("div");
  let isAll = false;
  let last = null;
  const saves = h("div");
  const attempts = h("div");
  const blocked = lines("How long saves blocked", { title: "How long each save blocked training (last 24 h of what is shown)", onZoom: zoom, fromZero: true, format: duration, height: 130, series: [{ label: "blocked", colour: "checkpoint", points: true, width: 1 }, { label: "until it landed", colour: "quiet", dash: [4, 3], width: 1 }] });
  const api = {
    element: h("div", null, section("Restarts", "restarts", restarts), section("Checkpoints", "checkpoints", blocked.element, saves), section("Attempts", "attempts", attempts)),
    restarts(view) {
      last = view;
      const found = view.restarts;
      const longest = Math.max(...found.map((row) => row.restart_s), 1e-9);
      const present = PHASES.filter((phase) => found.some((row) => row.phases[phase] > 0));
      const rows = [...found].sort((a, b) => b.at - a.at).slice(0, isAll ? SHOWN : AT_FIRST);
      replace(restarts, legend(present, "phase-"), table("Restarts, the latest first", [
        { title: "stopped (UTC)", cell: (row) => h("button", { type: "button", class: "link", "data-key": `stop ${row.index}`, title: "Zoom to it", on: { click: () => zoom(row.at - 1800, (row.resumed_at ?? view.until) + 1800) } }, time(row.at, true)) },
        { title: "what", wide: true, cell: (row) => [name(stop(row), 100), row.detail ? h("div", { class: "quiet" }, name(row.detail, 120)) : null] },
        { title: "the way back, by phase", wide: true, cell: (row) => stacked(PHASES.map((phase) => ({ name: words(phase), role: `phase-${phase}`, share: (row.phases[phase] ?? 0) / longest })), PHASES.filter((phase) => row.phases[phase] > 0).map((phase) => `${words(phase)} ${duration(row.phases[phase])}`).join(", ")) },
        { title: "restart", num: true, cell: (row) => `${duration(row.restart_s)}${row.resumed_at === null ? ", still down" : ""}` },
        { title: "lost", num: true, cell: (row) => duration(row.lost_s) },
        { title: "steps", num: true, cell: (row) => (row.resume_step !== null && row.last_step !== null && row.resume_step < row.last_step ? `${number(row.last_step)} → ${number(row.resume_step)}` : "–") },
      ], rows, { empty: "Nothing stopped it here.", class: "cards" }), found.length > rows.length && !isAll ? h("button", { type: "button", "data-key": "all restarts", on: { click: () => { isAll = true; api.restarts(last); } } }, "Show more") : null,
      found.length > rows.length || view.moreRestarts ? h("p", { class: "quiet" }, `The latest ${rows.length} of ${view.moreRestarts ? "more than " : ""}${number(found.length)}; zoom in for others.`) : null);
    },
    rest(view) {
      const rows = view.checkpoints;
      const timed = rows.filter((row) => row.start !== null);
      blocked.draw([timed.map((row) => row.start), timed.map((row) => row.blocking_s), timed.map((row) => (row.landed_at === null ? null : row.landed_at - row.start))]);
      const failed = rows.filter((row) => !["landed", "saved"].includes(row.state)).length;
      replace(saves, h("details", { "data-key": "saves" }, h("summary", null, `${view.moreCheckpoints ? `The latest ${count(rows.length, "save")}` : `${count(rows.length, "save")} in the last 24 h of what is shown`}${failed ? `, ${number(failed)} of them not landed` : ""}`), table("Saves, the latest first", [
        { title: "began (UTC)", cell: (row) => time(row.start, true) },
        { title: "step", num: true, cell: (row) => number(row.step) },
        { title: "mode", cell: (row) => name(row.mode ?? "–") },
        { title: "state", cell: (row) => words(row.state) },
        { title: "blocked", num: true, cell: (row) => duration(row.blocking_s) },
        { title: "to landing", num: true, cell: (row) => duration(row.persist_s) },
        { title: "size", num: true, cell: (row) => bytes(row.bytes) },
        { title: "tiers", cell: (row) => name(row.tiers.join(", ") || "–") },
      ], [...rows].reverse().slice(0, SHOWN), { class: "cards" })));
      replace(attempts, h("details", { "data-key": "attempts" }, h("summary", null, view.moreAttempts ? `The latest ${count(view.attempts.length, "attempt")}${view.isZoomed ? "; zoom in for others" : ` of ${number(view.whole.attempts)}; zoom in for others`}` : count(view.attempts.length, "attempt")), table("Attempts", [
        { title: "attempt", cell: (row) => name(row.name, 40) },
        { title: "began (UTC)", cell: (row) => time(row.start, true) },
        { title: "lasted", num: true, cell: (row) => duration(row.end - row.start) },
        { title: "ended", cell: (row) => `${row.how}${row.category ? `: ${words(row.category)}` : ""}` },
        { title: "GPUs", num: true, cell: (row) => number(row.world_size) },
        { title: "steps", num: true, cell: (row) => (row.first_step === null ? "–" : `${number(row.first_step)}–${number(row.last_step)}`) },
        { title: "kept", num: true, cell: (row) => duration(row.kept_s) },
        { title: "lost", num: true, cell: (row) => duration(row.lost_s) },
      ], view.attempts, { class: "cards" })));
    },
  };
  return api;
}
