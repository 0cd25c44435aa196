// What a chart that is looked through with keys or a finger has in common: it is a slider over its points, which says
// each point as text. Arrows move, Page keys jump, + and - zoom, Enter zooms in on the point, Escape shows all.

import { h } from "../dom.js";

/** Makes `element` such a chart. `chart`: {length(), text(index), show(index or null), zoom(factor, index), reset()}. */
export function explorable(element, label, chart) {
  let at = null;
  const set = (props) => Object.entries(props).forEach(([key, value]) => element.setAttribute(key, value));
  set({ role: "slider", tabindex: "0", "aria-label": label, "aria-valuemin": "0" });
  const readout = h("p", { class: "readout", "aria-hidden": "true" });

  function move(index) {
    const last = chart.length() - 1;
    if (last < 0) return;
    at = Math.max(0, Math.min(last, index));
    const text = chart.text(at);
    set({ "aria-valuemax": String(last), "aria-valuenow": String(at), "aria-valuetext": text });
    readout.textContent = text;
    chart.show(at);
  }

  function leave() {
    at = null;
    const last = Math.max(0, chart.length() - 1);
    set({ "aria-valuemax": String(last), "aria-valuenow": String(last), "aria-valuetext": last ? chart.text(last) : "nothing" });
    readout.textContent = chart.rest?.() ?? "";
    chart.show(null);
  }

  element.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const last = chart.length() - 1;
    const from = at ?? last;
    const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -20, PageUp: 20 };
    if (event.key in steps) move(from + steps[event.key]);
    else if (event.key === "Home") move(0);
    else if (event.key === "End") move(last);
    else if (chart.zoom && (event.key === "+" || event.key === "=" || event.key === "Enter")) chart.zoom(1 / 4, from);
    else if (chart.zoom && event.key === "-") chart.zoom(4, from);
    else if (chart.reset && event.key === "Escape") chart.reset();
    else return;
    event.preventDefault();
  });
  element.addEventListener("blur", leave);
  return { move, leave, readout };
}
