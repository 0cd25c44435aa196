// How it trains: loss and gradient norm with the incidents on them, and how fast it goes.

import { lines } from "../../charts/lines.js";
import { h, section } from "../../dom.js";
import { amount, duration } from "../../format.js";

export function training({ zoom }) {
  let view = null;
  const marks = (kinds) => () => (view?.incidents ?? []).filter((each) => kinds.some((kind) => each.detector.startsWith(kind)))
    .map((each) => ({ at: each.opened_at, until: each.cleared_at ?? view.until, colour: each.severity === "info" ? "quiet" : "lost" }));
  const stops = () => (view?.restarts ?? []).map((each) => ({ at: each.at, until: each.resumed_at ?? view.until, colour: "restart", soft: true }));
  const charts = {
    loss: lines("Loss", { onZoom: zoom, format: amount, series: [{ label: "mean", colour: "checkpoint" }, { label: "greatest", colour: "quiet", width: 1, dash: [2, 3] }], marks: marks(["loss", "nan", "skipped"]), summary: () => (marks(["loss", "nan", "skipped"])().length ? "red: incidents" : "") }),
    grad_norm: lines("Gradient norm", { onZoom: zoom, format: amount, series: [{ label: "mean", colour: "checkpoint" }, { label: "greatest", colour: "quiet", width: 1, dash: [2, 3] }], marks: marks(["grad", "nan"]) }),
    speed: lines("Throughput", { title: "Throughput: tokens a second, all ranks that told", onZoom: zoom, fromZero: true, format: amount, series: [{ label: "tokens/s", colour: "kept" }], marks: stops }),
    step_s: lines("Time of a step", { title: "Time of a step, all ranks", onZoom: zoom, fromZero: true, format: duration, series: [{ label: "mean", colour: "kept" }, { label: "longest", colour: "lost", width: 1, dash: [2, 3] }], marks: stops, summary: () => (stops().length ? `shaded: down${view.moreRestarts ? `, the latest ${stops().length} times` : ""}` : "") }),
  };
  return {
    element: section("How it trains", "training", h("div", { class: "columns" }, Object.values(charts).map((each) => each.element))),
    draw(next) {
      view = next;
      const rows = view.steps?.steps ?? [];
      const times = rows.map((row) => row.start);
      const of = (key) => rows.map((row) => row[key] ?? null);
      for (const metric of ["loss", "grad_norm", "step_s"]) {
        const mean = of(`${metric}_mean`);
        charts[metric].draw(mean.some((value) => value !== null) ? [times, mean, of(`${metric}_max`)] : [[], [], []]);
        charts[metric].element.classList.toggle("nothing", mean.every((value) => value === null));
      }
      const speed = rows.map((row) => (row.tokens_mean && row.step_s_mean ? row.tokens_mean / row.step_s_mean : null));
      charts.speed.draw(speed.some((value) => value !== null) ? [times, speed] : [[], []]);
      charts.speed.element.classList.toggle("nothing", speed.every((value) => value === null));
    },
  };
}
