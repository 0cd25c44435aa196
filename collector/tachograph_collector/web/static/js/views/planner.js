// The planner: goodput over the checkpoint interval for any C, R and M, a run's own place on the curve, and the year.

import { get, ofRun, Refused } from "../api.js";
import { legend } from "../charts/bars.js";
import { lines } from "../charts/lines.js";
import { ACCOUNTS } from "../charts/theme.js";
import { h, name, replace, section, table } from "../dom.js";
import { duration, number, percent } from "../format.js";
import { latest, settled } from "../live.js";
import { stay } from "../route.js";

const NUMBERS = {
  interval: { label: "Interval between saves", least: 10, most: 7 * 86400, usual: 3600 },
  checkpoint: { label: "C: a save blocks", least: 0.1, most: 3600, usual: 60 },
  restart: { label: "R: a restart takes", least: 1, most: 4 * 3600, usual: 900 },
  mtbf: { label: "M: mean time between failures of the job", least: 600, most: 90 * 86400, usual: 43200 },
};
const UNITS = [["s", 1], ["min", 60], ["h", 3600], ["d", 86400]];

export function planner(root, route, signal, fail) {
  const asked = Object.fromEntries(Object.entries(NUMBERS).map(([key, each]) => [key, positive(route.params.get(key)) ?? each.usual]));
  const chosen = { run: route.params.get("run") ?? "", interval: null, goodput: null, persist: positive(route.params.get("persist")) ?? 0 };
  const wrong = h("p", { class: "quiet", role: "alert" });
  const answer = h("div");
  const year = h("div");
  let told = null;
  const [nextAsk, nextRun] = [latest(signal), latest(signal)];
  const curve = lines("Goodput over the interval", { x: "log", titleX: "interval", formatX: (at) => duration(at), format: (share) => percent(share, 0), height: 280,
    series: [{ label: "model", colour: "kept", width: 2, spanGaps: true, format: (share) => percent(share) }, { label: "interval chosen", colour: "checkpoint", points: true, size: 16, width: 0, format: (share) => percent(share) }, { label: "best", colour: "restart", points: true, width: 0, format: (share) => percent(share) }, { label: "the run", colour: "lost", points: true, width: 0, format: (share) => percent(share) }],
    marks: () => (told ? [{ at: told.flat_top_s[0], until: told.flat_top_s[1], colour: "idle", soft: true }] : []), summary: () => "shaded: the flat top, where the interval hardly matters; the top is broad, so round it" });
  const slides = Object.fromEntries(Object.entries(NUMBERS).map(([key, each]) => [key, slide(key, each, asked[key], (value) => { asked[key] = value; changed(); })]));
  const known = h("datalist", { id: "known-runs" });
  const runField = h("input", { type: "text", list: "known-runs", id: "plan-run", value: chosen.run, autocomplete: "off", on: { change: (event) => { chosen.run = event.target.value; of(); } } });
  replace(root, h("h1", null, "Planner"), known, h("form", { class: "filters", on: { submit: (event) => event.preventDefault() } }, h("label", { for: "plan-run" }, "Take the numbers of a run", runField)),
    wrong, h("div", { class: "sliders" }, Object.values(slides).map((each) => each.element)), answer, curve.element, year);

  curve.element.hidden = true; // until it is known what stands above it
  const changed = settled(60, () => {
    stay(["plan"], { run: chosen.run, ...Object.fromEntries(Object.entries(asked).map(([key, value]) => [key, String(Number(value.toPrecision(4)))])), persist: chosen.persist || "" });
    ask();
  });

  async function ask() {
    const mine = nextAsk();
    try {
      told = await get("v1/plan", { interval_s: asked.interval, checkpoint_s: asked.checkpoint, restart_s: asked.restart, mtbf_s: asked.mtbf, persist_s: chosen.persist }, mine);
      wrong.textContent = "";
    } catch (error) {
      if (mine.aborted) return;
      if (!(error instanceof Refused)) return fail(error);
      wrong.textContent = error.message;
      return;
    } finally {
      if (!mine.aborted) root.dataset.loaded = "yes";
    }
    draw();
  }

  /** A run's own numbers, as the model measured them. */
  async function of() {
    const mine = nextRun();
    if (!chosen.run) {
      [chosen.interval, chosen.goodput] = [null, null];
      return changed();
    }
    try {
      const { model } = await get(ofRun(chosen.run, "/model"), {}, mine);
      const { measured } = model ?? {};
      if (!measured?.interval_s) throw new Refused(404, "", "The model knows too little of that run yet: it needs some saves.");
      const put = (key, value) => { if (value > 0) slides[key].set((asked[key] = value)); };
      put("interval", measured.interval_s);
      put("checkpoint", measured.cost_s);
      put("restart", measured.restart_s);
      put("mtbf", measured.mtbf_s);
      chosen.persist = measured.persist_s ?? 0;
      [chosen.interval, chosen.goodput] = [measured.interval_s, model.goodput.observed];
      changed();
    } catch (error) {
      if (mine.aborted) return;
      if (!(error instanceof Refused)) return fail(error);
      wrong.textContent = error.message;
      changed();
    }
  }

  function draw() {
    const points = told.curve.interval_s.map((interval, index) => [interval, told.curve.goodput[index], null, null, null]);
    points.push([told.at.interval_s, told.at.goodput, told.at.goodput, null, null], [told.best.interval_s, told.best.goodput, null, told.best.goodput, null]);
    if (chosen.interval) points.push([chosen.interval, null, null, null, chosen.goodput]);
    points.sort((a, b) => a[0] - b[0]);
    curve.element.hidden = false;
    curve.draw([0, 1, 2, 3, 4].map((column) => points.map((point) => point[column])));
    const loses = told.best.goodput - told.at.goodput;
    replace(answer, h("p", { class: "state", css: { "--key": "var(--kept)" } }, `Saving every ${duration(told.at.interval_s)} keeps ${percent(told.at.goodput)}; the best, every ${duration(told.best.interval_s)}, keeps ${percent(told.best.goodput)}${loses > 0.0005 ? `: ${(loses * 100).toFixed(1)} points more` : ""}.`),
      h("p", { class: "quiet" }, `Young's interval is ${duration(told.young_s)}, Daly's ${duration(told.daly_s)}; from ${duration(told.flat_top_s[0])} to ${duration(told.flat_top_s[1])} the curve is flat.${chosen.persist ? ` A save lands ${duration(chosen.persist)} after it began: saving more often than that gains nothing.` : ""}${chosen.interval ? ` Run ${""}` : ""}`, chosen.interval ? [name(chosen.run, 60), ` saves every ${duration(chosen.interval)} and keeps ${percent(chosen.goodput)}.`] : null));
    replace(year, section("Where a year goes", "year-title-section", legend(ACCOUNTS),
      h("div", { class: "year", role: "img", "aria-label": ACCOUNTS.map((account) => `${account} ${percent(told.at.shares[account])}`).join(", ") }, ACCOUNTS.map((account) => h("span", { css: { width: `${told.at.shares[account] * 100}%`, background: `var(--${account})` } }))),
      table("Where a year goes", [
        { title: "", cell: (account) => account },
        { title: "share", num: true, cell: (account) => percent(told.at.shares[account], 2) },
        { title: "of a year", num: true, cell: (account) => duration(told.at.year_h[account] * 3600) },
        { title: "hours", num: true, cell: (account) => number(told.at.year_h[account], 0) },
        { title: "at the best interval", num: true, cell: (account) => duration(told.best.year_h[account] * 3600) },
      ], ACCOUNTS, { class: "tight" })));
  }

  get("v1/runs", { limit: 200 }, signal).then((all) => replace(known, all.runs.map((each) => h("option", { value: each.run })))).catch(fail);
  if (chosen.run && !route.params.get("interval")) of();
  else {
    changed();
    if (chosen.run) ofPlace();
  }

  async function ofPlace() {
    const mine = nextRun();
    const whole = await get(ofRun(chosen.run, "/model"), {}, mine).catch(() => null);
    if (mine.aborted) return;
    if (whole?.model?.measured.interval_s) [chosen.interval, chosen.goodput] = [whole.model.measured.interval_s, whole.model.goodput.observed];
    if (told) draw();
  }
}

/** A slider on a logarithmic scale with a field beside it. */
function slide(key, { label, least, most }, value, changed) {
  const toPlace = (at) => (1000 * Math.log(Math.max(least, Math.min(most, at)) / least)) / Math.log(most / least);
  const range = h("input", { type: "range", min: "0", max: "1000", step: "1", id: `slide-${key}` });
  const field = h("input", { type: "number", min: "0", step: "any", "aria-label": `${label}, in the unit beside` });
  const unit = h("select", { "aria-label": `Unit of: ${label}` }, UNITS.map(([text, size]) => h("option", { value: size }, text)));
  const shown = h("output", { for: `slide-${key}` });
  let now = value;

  function show() {
    range.value = String(toPlace(now));
    const size = now < 120 ? 1 : now < 7200 ? 60 : now < 172800 ? 3600 : 86400;
    unit.value = String(size);
    field.value = String(Number((now / size).toPrecision(4)));
    shown.textContent = duration(now);
    range.setAttribute("aria-valuetext", duration(now));
  }
  const set = (next) => { now = next; show(); };
  range.addEventListener("input", () => { set(Number((least * (most / least) ** (Number(range.value) / 1000)).toPrecision(3))); changed(now); });
  const typed = () => { const next = Number(field.value) * Number(unit.value); if (next > 0) { set(next); changed(now); } };
  field.addEventListener("change", typed);
  unit.addEventListener("change", typed);
  show();
  return { set, element: h("div", { class: "slide" }, h("label", { for: `slide-${key}` }, label), range, h("span", null, field, " ", unit, " ", shown)) };
}

function positive(text) {
  const value = Number(text);
  return text !== null && Number.isFinite(value) && value > 0 ? value : null;
}
