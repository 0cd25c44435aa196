// Around the views: light or dark, help, keys that work everywhere, and leaving.

import { post } from "./api.js";
import { h } from "./dom.js";

const KEYS = [
  ["?", "this help"], ["g f", "fleet"], ["g c", "compare"], ["g i", "incidents"], ["g n", "nodes"], ["g p", "planner"],
  ["j, k", "next and previous row of a list"], ["← →", "in a chart: point by point; Page keys jump"],
  ["+ − Enter", "in a chart: zoom in, zoom out"], ["Esc", "in a chart: all of the run"],
];
const GOES = { f: "fleet", c: "compare", i: "incidents", n: "nodes", p: "plan" };

/** Light or dark as the system says, unless chosen here. `changed` is called when it changes. */
export function theme(changed) {
  const chosen = stored("theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
}

export function stored(key, value = undefined) {
  try {
    if (value === undefined) return localStorage.getItem(`tachograph.${key}`);
    if (value === null) localStorage.removeItem(`tachograph.${key}`);
    else localStorage.setItem(`tachograph.${key}`, value);
  } catch {
    // No storage: what was chosen holds until the page is left.
  }
  return null;
}

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** Fills the corner, and listens for keys. */
export function tools(corner, changed) {
  const flip = () => {
    const next = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    stored("theme", next);
    changed();
  };
  corner.append(
    h("button", { type: "button", on: { click: flip }, title: "Light or dark" }, "◐", h("span", { class: "unseen" }, "Light or dark")),
    h("button", { type: "button", on: { click: help }, title: "Keys (?)" }, "?", h("span", { class: "unseen" }, " Help and keys")),
    h("button", { type: "button", id: "leave", hidden: !stored("in"), on: { click: () => out(changed) } }, "Log out"),
  );
  let before = "";
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input, select, textarea, dialog")) return;
    if (event.key === "?") help();
    else if (before === "g" && GOES[event.key]) location.hash = `#/${GOES[event.key]}`;
    else if (event.key === "j" || event.key === "k") step(event.key === "j" ? 1 : -1);
    before = event.key;
  });
}

function step(by) {
  const rows = [...document.querySelectorAll("[data-row]")];
  if (!rows.length) return;
  const at = rows.indexOf(document.activeElement);
  rows[at < 0 ? 0 : Math.max(0, Math.min(rows.length - 1, at + by))].focus();
}

async function out(changed) {
  await post("logout").catch(() => null);
  stored("in", null);
  document.getElementById("leave").hidden = true;
  changed();
}

function help() {
  const dialog = document.getElementById("dialog");
  dialog.setAttribute("aria-label", "Help and keys");
  dialog.replaceChildren(
    h("h2", null, "Keys"),
    h("dl", { class: "facts" }, KEYS.map(([key, what]) => [h("dt", null, h("kbd", null, key)), h("dd", null, what)])),
    h("h2", null, "Colours"),
    h("ul", { class: "keys" }, [["kept", "work that counts"], ["checkpoint", "saving it"], ["lost", "work that was thrown away"], ["restart", "down, or on the way back"]]
      .map(([account, what]) => h("li", null, h("span", { class: "key", css: { "--key": `var(--${account})` } }), `${account}: ${what}`))),
    h("p", { class: "quiet" }, "Times are UTC. The API behind this page: ", h("a", { href: "v1/runs" }, "v1/runs"), "."),
    h("form", { method: "dialog" }, h("button", null, "Close")),
  );
  dialog.showModal();
}
