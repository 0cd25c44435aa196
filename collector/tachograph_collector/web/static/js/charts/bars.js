// Bars that are cells of a table: the chart and its numbers in one, for eyes and for screen readers.

import { h } from "../dom.js";
import { percent } from "../format.js";

/** One bar of several parts: [{name, share, role}]; shares of the whole width. */
export function stacked(parts, label) {
  const told = parts.filter((each) => each.share > 0);
  return h("span", { class: "bar", role: "img", "aria-label": label ?? told.map((each) => `${each.name} ${percent(each.share)}`).join(", ") },
    told.map((each) => h("span", { title: `${each.name} ${percent(each.share)}`, css: { width: `${Math.min(1, each.share) * 100}%`, background: `var(--${each.role})` } })));
}

/** A bar that begins somewhere: for a waterfall. */
export function floating(from, to, role) {
  const [low, high] = [Math.max(0, Math.min(from, to)), Math.min(1, Math.max(from, to))];
  return h("span", { class: "bar floating", "aria-hidden": "true" },
    high > low && h("span", { css: { left: `${low * 100}%`, width: `${Math.max(0.3, (high - low) * 100)}%`, background: `var(--${role})` } }));
}

/** What the colours mean. */
export function legend(names, prefix = "") {
  return h("ul", { class: "keys" }, names.map((each) => h("li", null, h("span", { class: "key", css: { "--key": `var(--${prefix}${each})` } }), each)));
}
