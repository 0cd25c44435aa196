// The run against the checkpoint model: its goodput with the band, its interval with the optimum, and the advice.

import { h, replace, s, section } from "../../dom.js";
import { amount, duration, percent } from "../../format.js";
import { to } from "../../route.js";

export function model({ title }) {
  const against = h("div", null, h("p", { class: "quiet" }, "…"));
  const advice = h("div", null, h("p", { class: "quiet" }, "…"));
  return {
    elements: [section("Against the model", "model", against), section("Interval and advice", "advice", advice)],
    draw(view) {
      const told = view.model;
      if (!told) {
        const none = "The model has nothing to say yet: it needs some time of training and a save.";
        replace(against, h("p", { class: "quiet" }, none));
        replace(advice, h("p", { class: "quiet" }, none));
        return;
      }
      const { goodput, measured, best } = told;
      replace(against, h("p", null, h("strong", null, told.sentence)), scale(goodput), h("dl", { class: "facts" },
        fact("observed", percent(goodput.observed)),
        fact("explained by what happened", goodput.explained === null ? null : `${percent(goodput.explained)} ± ${(goodput.explained_deviation * 100).toFixed(1)}`),
        fact("predicted in the long run", goodput.predicted === null ? null : `${percent(goodput.predicted)} (${percent(goodput.predicted_low)} to ${percent(goodput.predicted_high)})`),
        fact("95 % of such runs", goodput.band_low === null ? null : `${percent(goodput.band_low)} to ${percent(goodput.band_high)}`),
        fact("mean time between failures", measured.mtbf_s ? `${duration(measured.mtbf_s)} (${duration(measured.mtbf_low_s)} to ${measured.mtbf_high_s === null ? "unknown" : duration(measured.mtbf_high_s)})` : null)));
      replace(advice, h("dl", { class: "facts" },
        fact("interval in use", duration(measured.interval_s)),
        fact("best interval", best && `${duration(best.interval_s)} (${duration(best.interval_low_s)} to ${best.interval_high_s === null ? "unknown" : duration(best.interval_high_s)}), +${best.gain_points.toFixed(1)} points`),
        fact("a save blocks", duration(measured.cost_s)),
        fact("a restart takes", duration(measured.restart_s)),
        fact("saves cost, and lost work", best && `${best.interval_points.toFixed(1)} points`),
        fact("restarts cost", best && `${best.restart_points.toFixed(1)} points, whatever the interval`),
        fact("at risk now", view.whole.at_risk_s === null ? null : duration(view.whole.at_risk_s))),
        h("ul", null, told.findings.map((each) => h("li", null, each.sentence, each.points ? ` (${each.points.toFixed(1)} points${each.gpu_hours_per_day ? `, ${amount(each.gpu_hours_per_day)} GPU-h a day` : ""})` : ""))),
        h("p", null, h("a", { href: to(["plan"], { run: title }), "data-key": "to plan" }, "Open in the planner")));
    },
  };
}

function fact(term, what) {
  return what === null || what === undefined ? null : [h("dt", null, term), h("dd", null, what)];
}

/** A scale from 0 to 100 %: the band, the prediction, and where the run is. */
function scale(told) {
  const at = (share) => 4 + share * 292;
  const marks = [told.band_low !== null && s("rect", { x: at(told.band_low), y: 12, width: Math.max(1, at(told.band_high) - at(told.band_low)), height: 16, class: "band" }),
    told.predicted !== null && s("line", { x1: at(told.predicted), x2: at(told.predicted), y1: 8, y2: 32, class: "predicted" }),
    told.observed !== null && s("circle", { cx: at(told.observed), cy: 20, r: 6, class: "observed" })];
  const label = `Observed ${percent(told.observed)}, predicted ${percent(told.predicted)}, band ${percent(told.band_low)} to ${percent(told.band_high)}`;
  return s("svg", { class: "scale", viewBox: "0 0 300 52", role: "img", "aria-label": label },
    s("line", { x1: 4, x2: 296, y1: 20, y2: 20, class: "rule" }), marks,
    [0, 0.25, 0.5, 0.75, 1].map((share) => s("text", { x: at(share), y: 48, "text-anchor": share === 0 ? "start" : share === 1 ? "end" : "middle" }, percent(share, 0))));
}
