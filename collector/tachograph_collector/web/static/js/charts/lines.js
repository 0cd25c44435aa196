// Lines over time (or over any x) with uPlot, each chart with its words: a label, what the point in question is, a table.

import { h, table } from "../dom.js";
import { amount, tick, time } from "../format.js";
import { explorable } from "./explore.js";
import { colour } from "./theme.js";

const MAX_ROWS = 200;
export const DURATIONS = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 43200, 86400, 172800, 345600, 604800, 1209600, 2592000, 7776000];

/**
 * A chart. `series`: [{label, colour, width, fill, dash, stepped, format, scale, points}]; `format(value)` for the y axis;
 * `x`: "time", "linear" (with `splitX`, lengths that its ticks may be apart) or "log"; `formatX`; `y`: [low, high]; `marks()`: [{at, until, colour, label}] as upright lines or
 * regions; `levels()`: [{value, high, colour, label}] as level lines or bands; `onZoom(from, to)` or null.
 */
export function lines(label, options) {
  const { series, format = amount, x = "time", formatX = (at) => time(at, true), height = 170, onZoom, marks, levels } = options;
  const canvas = h("div", { class: "lines-plot" });
  const box = h("div", { class: "lines" }, canvas);
  const details = h("details", { class: "as-table", on: { toggle: () => details.open && fill() } }, h("summary", null, "As a table"));
  const keys = h("ul", { class: "keys" }, series.filter((each) => each.label).map((each) =>
    h("li", null, h("span", { class: each.dash ? "key dashed" : "key", css: { "--key": each.paint ?? `var(--${each.colour})` } }), each.label)));
  let data = [[]];
  let plot = null;

  const explored = explorable(box, label, {
    length: () => data[0].length,
    text: (index) => words(index),
    show: (index) => plot && plot.setCursor(index === null ? { left: -10, top: -10 } : { left: plot.valToPos(data[0][index], "x"), top: plot.bbox.height / 4 }, false),
    zoom: onZoom && ((factor, index) => {
      const [low, high] = [data[0][0], data[0].at(-1)];
      const half = Math.max(1800, ((high - low) * factor) / 2);
      onZoom(data[0][index] - half, data[0][index] + half);
    }),
    reset: onZoom && (() => onZoom(null)),
    rest: () => options.summary?.(data) ?? "",
  });

  function words(index) {
    const values = series.map((each, place) => [each, data[place + 1]?.[index]]).filter(([each, value]) => each.label && value !== null && value !== undefined);
    return `${formatX(data[0][index])}: ${values.map(([each, value]) => `${each.label} ${(each.format ?? format)(each.shown ? each.shown(index) : value)}`).join(", ") || "nothing"}`;
  }

  function fill() {
    const every = Math.max(1, Math.ceil(data[0].length / MAX_ROWS));
    const rows = data[0].map((_, index) => index).filter((index) => index % every === 0);
    const columns = [{ title: x === "time" ? "time (UTC)" : options.titleX ?? "x", cell: (index) => formatX(data[0][index]) },
      ...series.map((each, place) => ({ title: each.label, num: true, cell: (index) => (each.format ?? format)(each.shown ? each.shown(index) : data[place + 1][index]) })).filter((each) => each.title)];
    details.querySelector(".scroll, .quiet")?.remove();
    details.append(table(label, columns, rows));
  }

  function made(width) {
    const axis = { stroke: colour("quiet"), grid: { stroke: colour("rule"), width: 1 }, ticks: { stroke: colour("rule"), width: 1 }, font: "12px system-ui, sans-serif" };
    return new window.uPlot({
      width, height,
      legend: { show: false },
      tzDate: (at) => window.uPlot.tzDate(new Date(at * 1e3), "Etc/UTC"),
      cursor: { y: false, drag: { x: Boolean(onZoom), y: false, setScale: false }, points: { size: 6 } },
      scales: { x: { time: x === "time", distr: x === "log" ? 3 : 1 }, y: { range: options.y ? () => options.y : ranged } },
      axes: [{ ...axis, size: 34, space: 70, ...(x === "log" ? { splits: rounded, filter: (_, splits) => splits } : {}), ...(options.splitX ? { incrs: options.splitX } : {}), values: (_, ticks, __, ___, step) => ticks.map((at) => (at === null ? null : x === "time" ? tick(at, step) : formatX(at))) },
        { ...axis, size: 64, values: (_, ticks) => ticks.map((value) => format(value)) }],
      series: [{}, ...series.map((each) => ({
        stroke: each.paint ?? colour(each.colour), width: each.width ?? 1.5, dash: each.dash, fill: each.fill && colour(each.fill),
        points: { show: each.points ?? false, size: each.size ?? 10, fill: each.paint ?? colour(each.colour) }, spanGaps: each.spanGaps ?? false,
        paths: each.stepped ? window.uPlot.paths.stepped({ align: 1 }) : undefined,
      }))],
      hooks: {
        drawClear: [(u) => behind(u)],
        draw: [(u) => before(u)],
        setSelect: [(u) => {
          if (u.select.width < 4 || !onZoom) return;
          onZoom(u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x"));
          u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
        }],
        setCursor: [(u) => u.cursor.idx !== null && u.cursor.idx !== undefined && box.matches(":hover") && explored.readout.textContent !== (u.cursor.told = words(u.cursor.idx)) && (explored.readout.textContent = u.cursor.told)],
      },
    }, data, canvas);
  }

  /** Round durations on a logarithmic axis, as many as have room. */
  function rounded(u) {
    const { min, max } = u.scales.x;
    let last = 0;
    return DURATIONS.filter((at) => {
      if (at < min || at > max || (Math.log(at / (last || 1e-9)) / Math.log(max / min)) * u.width < 80) return false;
      last = at;
      return true;
    });
  }

  function ranged(_, low, high) {
    const also = (levels?.() ?? []).flatMap((each) => [each.value, each.high]).filter((value) => Number.isFinite(value));
    const least = Math.min(low ?? Infinity, ...also);
    const most = Math.max(high ?? -Infinity, ...also);
    if (!Number.isFinite(least) || !Number.isFinite(most)) return [0, 1];
    const room = (most - least || Math.abs(most) || 1) * 0.08;
    return [options.fromZero ? 0 : least - room, most + room];
  }

  function behind(u) {
    const context = u.ctx;
    for (const each of levels?.() ?? []) {
      if (!Number.isFinite(each.high)) continue;
      const [top, bottom] = [u.valToPos(each.high, "y", true), u.valToPos(each.value, "y", true)];
      context.fillStyle = colour(each.colour);
      context.globalAlpha = 0.18;
      context.fillRect(u.bbox.left, top, u.bbox.width, bottom - top);
      context.globalAlpha = 1;
    }
    for (const each of marks?.() ?? []) {
      if (!(each.until > each.at)) continue;
      const [left, right] = clipped(u, each.at, each.until);
      context.fillStyle = colour(each.colour);
      context.globalAlpha = each.soft ? 0.35 : 0.2;
      context.fillRect(left, u.bbox.top, Math.max(1, right - left), u.bbox.height);
      context.globalAlpha = 1;
    }
  }

  function before(u) {
    const context = u.ctx;
    context.save();
    context.lineWidth = 1.5 * devicePixelRatio;
    context.setLineDash([5 * devicePixelRatio, 4 * devicePixelRatio]);
    for (const each of levels?.() ?? []) {
      if (Number.isFinite(each.high)) continue;
      const y = u.valToPos(each.value, "y", true);
      line(context, each.colour, u.bbox.left, y, u.bbox.left + u.bbox.width, y);
    }
    context.setLineDash([]);
    for (const each of marks?.() ?? []) {
      if (each.soft || each.at < u.scales.x.min || each.at > u.scales.x.max) continue;
      const left = u.valToPos(each.at, "x", true);
      line(context, each.colour, left, u.bbox.top, left, u.bbox.top + u.bbox.height);
    }
    context.restore();
  }

  function line(context, paint, ...at) {
    context.strokeStyle = colour(paint);
    context.beginPath();
    context.moveTo(at[0], at[1]);
    context.lineTo(at[2], at[3]);
    context.stroke();
  }

  function clipped(u, from, to) {
    const { min, max } = u.scales.x;
    return [u.valToPos(Math.max(from, min), "x", true), u.valToPos(Math.min(to, max), "x", true)];
  }

  new ResizeObserver(() => {
    if (plot && box.clientWidth) plot.setSize({ width: box.clientWidth, height });
    else render();
  }).observe(box);

  function render() {
    if (!box.clientWidth || !data[0].length) return;
    if (!window.uPlot) {
      canvas.textContent = "The chart library is missing on the collector (pip install 'tachograph[collector]'); the table has the numbers.";
      return;
    }
    if (plot) plot.setData(data);
    else plot = made(box.clientWidth);
  }

  return {
    element: h("figure", { class: "chart" }, h("figcaption", null, options.title ?? label), keys, box, explored.readout, details),
    draw(columns) {
      data = columns;
      const isLine = x === "time" && !series.some((each) => each.points);
      box.hidden = !data[0].length || (isLine && data[0].length === 1); // one point makes no line, and an axis of years
      render();
      if (document.activeElement !== box) explored.leave();
      if (!data[0].length) explored.readout.textContent = options.empty ?? "Nothing of this was told.";
      if (details.open) fill();
    },
  };
}
