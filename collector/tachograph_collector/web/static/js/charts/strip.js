// The strip of minutes: a minute is a column in the colour of its account, a longer stretch one of all accounts that it has,
// from the bottom up. What was booked differently later has a mark below. Drag to zoom.

import { clean, h } from "../dom.js";
import { duration, time } from "../format.js";
import { explorable } from "./explore.js";
import { ACCOUNTS, colour } from "./theme.js";

const HEIGHT = 56;
const MARKS = 10;
const SEEN = 8;
/** Of a longer stretch lost and restart time are at least so high, where there is any: a month has to show an hour. */

/** A strip; `onZoom(since, until)` or `onZoom(null)` for all, or null where there is no zooming. Gives {element, draw(minutes, every_s, since, until)}. */
export function strip(label, onZoom) {
  const canvas = h("canvas", { "aria-hidden": "true" });
  const mark = h("div", { class: "strip-at", hidden: true });
  const drag = h("div", { class: "strip-drag", hidden: true });
  const box = h("div", { class: "strip" }, canvas, mark, drag);
  let rows = [];
  let every = 60;
  let [since, until] = [0, 1];

  const x = (at) => ((at - since) / (until - since)) * box.clientWidth;
  const atX = (px) => since + (px / Math.max(1, box.clientWidth)) * (until - since);

  const explored = explorable(box, label, {
    length: () => rows.length,
    text: (index) => told(rows[index], every),
    show(index) {
      mark.hidden = index === null;
      if (index === null) return;
      mark.style.left = `${x(rows[index].start)}px`;
      mark.style.width = `${Math.max(2, x(rows[index].start + every) - x(rows[index].start))}px`;
    },
    zoom: onZoom && ((factor, index) => {
      const middle = rows[index] ? rows[index].start + every / 2 : (since + until) / 2;
      const half = Math.max(1800, ((until - since) * factor) / 2);
      onZoom(middle - half, middle + half);
    }),
    reset: onZoom && (() => onZoom(null)),
    rest: () => (rows.length ? `${rows.length} ${rows.length === 1 ? "stretch" : "stretches"} of ${duration(every)}; arrow keys or pointer say what each was${onZoom ? ", dragging zooms" : ""}` : "nothing is booked here"),
  });

  function indexAt(px) {
    const at = atX(px);
    let [low, high] = [0, rows.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (rows[middle].start <= at) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  let began = null;
  const px = (event) => Math.max(0, Math.min(box.clientWidth, event.clientX - box.getBoundingClientRect().left));
  box.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !onZoom) return;
    began = px(event);
    box.setPointerCapture(event.pointerId);
  });
  box.addEventListener("pointermove", (event) => {
    const now = px(event);
    if (rows.length) explored.move(indexAt(now));
    if (began === null) return;
    drag.hidden = Math.abs(now - began) < 4;
    drag.style.left = `${Math.min(began, now)}px`;
    drag.style.width = `${Math.abs(now - began)}px`;
  });
  const dropped = (event) => {
    const now = px(event);
    if (began !== null && Math.abs(now - began) >= 4) onZoom(atX(Math.min(began, now)), atX(Math.max(began, now)));
    began = null;
    drag.hidden = true;
  };
  box.addEventListener("pointerup", dropped);
  box.addEventListener("pointercancel", () => { began = null; drag.hidden = true; });
  box.addEventListener("pointerleave", () => began === null && document.activeElement !== box && explored.leave());

  function draw() {
    const width = box.clientWidth;
    if (!width) return;
    const ratio = devicePixelRatio || 1;
    canvas.width = width * ratio;
    canvas.height = (HEIGHT + MARKS) * ratio;
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    context.fillStyle = colour("hole");
    context.fillRect(0, 0, width, HEIGHT);
    const colours = Object.fromEntries(ACCOUNTS.map((account) => [account, colour(account)]));
    for (const row of rows) {
      const left = Math.floor(x(row.start) * ratio) / ratio;
      const wide = Math.max(1 / ratio, Math.ceil(x(row.start + every) * ratio) / ratio - left);
      context.fillStyle = colours[row.label] ?? colour("idle");
      context.fillRect(left, 0, wide, HEIGHT);
      if (every <= 60) continue;
      let top = 0;
      for (const [account, height] of heights(row)) {
        context.fillStyle = colours[account];
        context.fillRect(left, top, wide, height);
        top += height;
      }
    }
    context.fillStyle = colour("ink");
    for (const row of rows) if (row.revision > 1) context.fillRect(x(row.start), HEIGHT + 3, Math.max(2, x(row.start + every) - x(row.start)), 4);
  }

  new ResizeObserver(draw).observe(box);
  const element = h("div", null, box, h("div", { class: "strip-ends", "aria-hidden": "true" }, h("span"), h("span")), explored.readout);
  return {
    element,
    draw(minutes, every_s, from, to) {
      const isOther = from !== since || every_s !== every;
      [rows, every, since, until] = [minutes, every_s, from, Math.max(to, from + 60)];
      const [first, last] = element.querySelectorAll(".strip-ends span");
      first.textContent = time(since);
      last.textContent = `${time(until)} UTC`;
      draw();
      if (isOther || document.activeElement !== box) explored.leave();
    },
  };
}

/** How high each account is in a column, from the top down. */
function heights(row) {
  const all = ACCOUNTS.reduce((total, account) => total + row[`${account}_s`], 0) || 1;
  const high = Object.fromEntries(ACCOUNTS.map((account) => [account, (row[`${account}_s`] / all) * HEIGHT]));
  for (const [account, other] of [["lost", "restart"], ["restart", "lost"]])
    if (high[account] > 0) high[account] = Math.min(Math.max(SEEN, high[account]), HEIGHT - (high[other] > 0 ? SEEN : 0));
  const rest = Math.max(0, HEIGHT - high.lost - high.restart);
  const others = high.kept + high.checkpoint || 1;
  return [["restart", high.restart], ["lost", high.lost], ["checkpoint", (high.checkpoint / others) * rest], ["kept", (high.kept / others) * rest]];
}

/** What a stretch was, in words. */
export function told(row, every) {
  const parts = ACCOUNTS.filter((account) => row[`${account}_s`] > 0).map((account) => `${account} ${duration(row[`${account}_s`])}`);
  const restated = row.revision > 1 ? `; restated ${row.revision - 1} time${row.revision > 2 ? "s" : ""}, at first ${firstly(row)}` : "";
  return clean(`${time(row.start, every < 60)}${every > 60 ? ` (${duration(every)})` : ""}: ${parts.join(", ") || "nothing booked"}${restated}${row.incomplete ? "; not complete yet" : ""}`);
}

function firstly(row) {
  return ACCOUNTS.filter((account) => row[`first_${account}_s`] > 0).map((account) => `${account} ${duration(row[`first_${account}_s`])}`).join(", ") || "nothing";
}
