// What a run is doing and what to do about it, in words. Numbers come from the collector; nothing is judged here.

import { roughly, words } from "./format.js";

const DOING = {
  kept: "Training", checkpoint: "Saving a checkpoint", lost: "Work that was thrown away",
  queued: "Waiting in the queue", startup: "Starting up", detect: "Down: nothing restarts it yet", replace: "Down: waiting for nodes",
  reload: "Down: loading the checkpoint", warmup: "Warming up after a restart", stall: "Stalled: no step ends",
  planned: "Stopped on purpose", shutdown: "Shutting down", other: "Down",
};

const TO_DO = {
  queued: "Look at the scheduler's queue: the job holds no nodes yet.",
  detect: "Look whether the launcher noticed: no new attempt has begun. Cordon the node below, then restart the job.",
  replace: "Look at the scheduler for free nodes; a hot spare ends this phase at once.",
  reload: "Look at the storage's read bandwidth; local copies shorten this phase.",
  warmup: "Nothing yet: steps begin after warm-up.",
  stall: "Look at the ranks that have not ended the step; py-spy dump on one of them says where it waits.",
  planned: "Nothing: somebody stopped it on purpose.",
  other: "Look at the job's own log: what it does now was not told.",
};

/** What is said of what to do, by whether it can still be done. */
export const heading = (summary) => (summary.status === "running" ? "What to do" : "Judgement");

/** {text, role, since, sub} of what goes on; `segment` is the last that is booked, and an open hang goes on from there. */
export function doing(summary, segment, incidents = []) {
  if (summary.status !== "running") {
    const bad = ["failed", "abandoned"].includes(summary.status);
    return { text: { completed: "Completed", failed: "Failed", cancelled: "Cancelled", abandoned: "Abandoned: nothing was heard of it" }[summary.status] ?? words(summary.status), role: bad ? "lost" : "idle", since: summary.end, sub: null };
  }
  const hang = incidents.find((each) => each.detector === "hang" && isOpen(each));
  if (hang && segment?.account !== "restart") return { text: DOING.stall, role: "restart", since: hang.opened_at, sub: "stall" };
  if (!segment) return { text: "Running", role: "kept", since: null, sub: null };
  const text = (segment.account === "restart" && DOING[segment.sub]) || DOING[segment.account] || words(segment.sub);
  return { text, role: segment.account, since: segment.start, sub: segment.sub };
}

/** The sentence of what to do, and where it is from: of a run that is down, about that; else of its gravest incident. */
export function toDo(state, incidents, model) {
  if (state.role === "restart" && TO_DO[state.sub]) return { text: TO_DO[state.sub], from: `phase ${words(state.sub)}` };
  const worst = byWeight(incidents.filter(isOpen))[0];
  const from = worst && `detector ${words(worst.detector)}`;
  if (worst?.advice) return { text: worst.severity === "info" ? `Nothing at once. ${worst.advice}` : worst.advice, from };
  if (worst && worst.severity !== "info") return { text: `See why: ${worst.summary}`, from };
  const finding = model?.findings?.find((each) => each.level !== "fine" && each.level !== "info");
  if (finding) return { text: finding.sentence, from: "checkpoint model" };
  return model ? { text: `Nothing. ${model.sentence}`, from: "checkpoint model" } : { text: "Nothing that is known of.", from: null };
}

const WEIGHT = { critical: 0, warning: 1, info: 2 };

/** The gravest first, then the newest. */
export function byWeight(incidents) {
  return [...incidents].sort((a, b) => (WEIGHT[a.severity] ?? 3) - (WEIGHT[b.severity] ?? 3) || b.opened_at - a.opened_at);
}

export const isOpen = (incident) => incident.is_open;

/** What stopped a run: "failure: gpu, node n3, rank 7". */
export function stop(row) {
  const where = [row.node !== null && row.node !== undefined ? `node ${row.node}` : "", Number.isInteger(row.rank) ? `rank ${row.rank}` : ""].filter(Boolean);
  return `${row.how}${row.category || row.how === "failure" ? `: ${words(row.category)}` : ""}${row.inferred ? " (inferred)" : ""}${where.length ? `, ${where.join(", ")}` : ""}`;
}

/** "for 14 min" */
export function lasting(since, until) {
  return `for ${roughly(until - since)}`;
}
