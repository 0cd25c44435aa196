// How much of the run is looked at: buttons for the usual spans, and steps to either side.

import { h, replace } from "../../dom.js";
import { duration, time } from "../../format.js";
import { to } from "../../route.js";

const SPANS = [["1 h", 3600], ["6 h", 21600], ["24 h", 86400], ["7 d", 604800], ["30 d", 2592000]];

export function range({ title, zoom }) {
  const element = h("div", { class: "range", role: "group", "aria-label": "Stretch of time" });
  return {
    element,
    draw(view) {
      const span = view.until - view.since;
      const button = (text, label, go, isOn, isOff) => h("button", { type: "button", "data-key": `range ${text}`, "aria-pressed": isOn === undefined ? null : String(isOn), "aria-label": label, disabled: isOff, on: { click: go } }, text);
      replace(element,
        button("All", "All of the run", () => zoom(null), !view.isZoomed),
        SPANS.filter(([, each]) => each < view.whole.wall_s).map(([text, each]) => button(text, `The last ${text}`, () => zoom(view.whole.end - each, view.whole.end), view.isZoomed && Math.abs(span - each) < 60 && view.until >= view.whole.end - 60)),
        button("‹", "Earlier", () => zoom(view.since - span / 2, view.until - span / 2), undefined, view.since <= view.whole.start),
        button("›", "Later", () => zoom(view.since + span / 2, view.until + span / 2), undefined, view.until >= view.whole.end),
        button("+", "Zoom in", () => zoom(view.since + span / 4, view.until - span / 4), undefined, span <= 600),
        button("−", "Zoom out", () => zoom(view.since - span / 2, view.until + span / 2), undefined, !view.isZoomed),
        h("span", { class: "quiet" }, `${time(view.since)} to ${time(view.until)} UTC, ${duration(span)}`),
        h("a", { href: to(["compare"], { a: title }), "data-key": "compare" }, "Compare"),
        h("a", { href: to(["plan"], { run: title }), "data-key": "plan" }, "Plan"));
    },
  };
}
