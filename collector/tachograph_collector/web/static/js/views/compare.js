// Two runs side by side: the same numbers, the difference, and both strips over the time since each began.

import { get, getIfThere, ofRun, Refused } from "../api.js";
import { legend, stacked } from "../charts/bars.js";
import { DURATIONS, lines } from "../charts/lines.js";
import { strip } from "../charts/strip.js";
import { ACCOUNTS } from "../charts/theme.js";
import { h, name, replace, section, table } from "../dom.js";
import { amount, duration, number, percent } from "../format.js";
import { poll, settled } from "../live.js";
import { stay, to } from "../route.js";

const POINTS = 400;

export function compare(root, route, signal, fail) {
  const asked = { a: route.params.get("a") ?? "", b: route.params.get("b") ?? "" };
  const known = h("datalist", { id: "known-runs" });
  const body = h("div");
  const strips = ["First run, minute by minute", "Second run, minute by minute"].map((label) => strip(label, null));
  const titles = [h("h3"), h("h3")];
  let again = () => {};
  const changed = settled(250, () => { stay(["compare"], asked); again(); });
  const field = (key, label) => h("label", null, label, h("input", { type: "text", list: "known-runs", value: asked[key], id: `run-${key}`, autocomplete: "off", on: { input: (event) => { asked[key] = event.target.value; changed(); } } }));
  const swap = () => {
    [asked.a, asked.b] = [asked.b, asked.a];
    for (const key of ["a", "b"]) document.getElementById(`run-${key}`).value = asked[key];
    changed();
  };
  const goodput = lines("Goodput so far", { title: "Goodput so far, over the time since each began", x: "linear", splitX: DURATIONS, titleX: "since it began", y: [0, 1], formatX: (at) => duration(at), format: (share) => percent(share, 0), height: 220,
    series: [{ label: "first", colour: "checkpoint", width: 2, format: (share) => percent(share), spanGaps: true }, { label: "second", colour: "lost", width: 2, dash: [8, 4], format: (share) => percent(share), spanGaps: true }], empty: "Choose two runs." });
  const charts = h("div", { hidden: true }, h("h2", null, "Minute by minute, over the same length of time"), strips.map((each, place) => [titles[place], each.element]), goodput.element);
  replace(root, h("h1", null, "Compare two runs"), known,
    h("form", { class: "filters", on: { submit: (event) => event.preventDefault() } }, field("a", "First run"), h("button", { type: "button", on: { click: swap } }, "⇄", h("span", { class: "unseen" }, " Exchange")), field("b", "Second run")), body, charts);

  get("v1/runs", { limit: 200 }, signal).then((told) => {
    replace(known, told.runs.map((each) => h("option", { value: each.run })));
    if (asked.a && asked.b) return;
    if (told.runs.length < 2 && !(asked.a && asked.b)) replace(body, h("p", { class: "quiet" }, told.runs.length ? "There is only one run yet: nothing to compare it with." : "There is no run yet."));
    asked.a ||= told.runs.find((each) => each.run !== asked.b)?.run ?? "";
    asked.b ||= told.runs.find((each) => each.run !== asked.a)?.run ?? "";
    for (const key of ["a", "b"]) document.getElementById(`run-${key}`).value = asked[key];
    again();
  }).catch(fail);

  again = poll(signal, 30, async (signal) => {
    if (!asked.a || !asked.b) return;
    let both;
    try {
      both = await Promise.all([asked.a, asked.b].map((each) => get(ofRun(each), { records: false }, signal)));
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      replace(body, h("p", { class: "quiet", role: "status" }, error.message));
      charts.hidden = true;
      return;
    }
    const longest = Math.max(...both.map((each) => each.wall_s), 60);
    const every = Math.max(1, Math.ceil(longest / 60 / POINTS));
    const minutes = await Promise.all(both.map((each) => get(ofRun(each.run, "/minutes"), { every: `${every}m` }, signal)));
    replace(body, legend(ACCOUNTS), numbers(both));
    charts.hidden = false;
    titles.forEach((each, place) => replace(each, name(both[place].run, 60)));
    strips.forEach((each, place) => each.draw(minutes[place].minutes, every * 60, both[place].start, both[place].start + longest));
    goodput.draw(together(both, minutes.map((each) => each.minutes), every * 60));
    const models = await Promise.all(both.map((each) => getIfThere(ofRun(each.run, "/model"), {}, signal)));
    replace(body, legend(ACCOUNTS), numbers(both, models.map((each) => each?.model ?? null)));
  }, fail);
}

/** Both courses on one axis of time since the beginning. */
function together(both, minutes, every) {
  const courses = minutes.map((rows, place) => {
    let [kept, all] = [0, 0];
    return new Map(rows.map((row) => {
      kept += row.kept_s;
      all += ACCOUNTS.reduce((total, account) => total + row[`${account}_s`], 0);
      return [Math.round((row.start + every - both[place].start) / every), all ? kept / all : null];
    }));
  });
  const places = [...new Set(courses.flatMap((each) => [...each.keys()]))].sort((x, y) => x - y);
  return [places.map((each) => Math.max(0, each * every)), ...courses.map((each) => places.map((place) => each.get(place) ?? null))];
}

function numbers(both, models = [null, null]) {
  const [a, b] = both;
  const share = (account) => (each) => (each.wall_s ? each[`${account}_s`] / each.wall_s : null);
  const points = (x, y) => (x === null || y === null ? "–" : `${y >= x ? "+" : "−"}${Math.abs((y - x) * 100).toFixed(1)} points`);
  const plain = (format) => (x, y) => (x === null || y === null || x === undefined || y === undefined ? "–" : `${y >= x ? "+" : "−"}${format(Math.abs(y - x))}`);
  const measured = (key) => (each) => models[both.indexOf(each)]?.measured[key] ?? null;
  const rows = [
    ["goodput", (each) => each.goodput, percent, points],
    ["lasts", (each) => each.wall_s, duration, plain(duration)],
    ...ACCOUNTS.slice(1).map((account) => [`${account}, share`, share(account), percent, points]),
    ["failures", (each) => each.failures, number, plain(number)],
    ["failures a day", (each) => (each.wall_s ? (each.failures / each.wall_s) * 86400 : null), amount, plain(amount)],
    ["attempts", (each) => each.attempts, number, plain(number)],
    ["GPUs", (each) => each.details.world_size, number, plain(number)],
    ["GPU-hours not kept", (each) => (each.details.gpu_hours ? each.details.gpu_hours.held - each.details.gpu_hours.kept : null), amount, plain(amount)],
    ["money not kept", (each) => (each.details.money ? each.details.money.held - each.details.money.kept : null), amount, plain(amount)],
    ["interval in use", measured("interval_s"), duration, plain(duration)],
    ["a save blocks", measured("cost_s"), duration, plain(duration)],
    ["a restart takes", measured("restart_s"), duration, plain(duration)],
    ["mean time between failures", measured("mtbf_s"), duration, plain(duration)],
  ];
  const bar = (each) => stacked(ACCOUNTS.map((account) => ({ name: account, role: account, share: share(account)(each) ?? 0 })));
  const link = (each) => h("a", { href: to(["runs", each.run]), "data-key": `to ${each.run}` }, name(each.run, 48));
  return section("Side by side", "side", table("Side by side", [
    { title: "", cell: (row) => row[0] },
    { title: "first", cell: (row) => (row.length === 2 ? row[1](a) : row[2](row[1](a))) },
    { title: "second", cell: (row) => (row.length === 2 ? row[1](b) : row[2](row[1](b))) },
    { title: "second against first", cell: (row) => (row.length === 2 ? "" : row[3](row[1](a), row[1](b))) },
  ], [["run", link], ["where its time went", bar], ...rows], { class: "tight" }));
}
