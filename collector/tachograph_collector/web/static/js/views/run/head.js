// The answer first: what the run does, since when, what that costs, what to do.

import { h, name, replace } from "../../dom.js";
import { amount, ago, clock, count, duration, percent, time, words } from "../../format.js";
import { to } from "../../route.js";
import { stored } from "../../tools.js";
import { byWeight, doing, heading, isOpen, lasting, stop, toDo } from "../../words.js";
import { status, tile } from "../fleet.js";

export function head({ title, target }) {
  const state = h("p", { class: "state", role: "status" });
  const facts = h("div", { class: "broke" });
  const tiles = h("div", { class: "tiles" });
  const key = `target.${title}`;
  const wanted = h("input", { type: "number", id: "target", min: "1", max: "100", step: "0.5", inputmode: "decimal", value: stored(key) ?? "" });
  const goal = h("label", { class: "target" }, "Target, %", wanted);
  let last = null;

  wanted.addEventListener("change", () => {
    stored(key, wanted.value || null);
    if (last) api.second(last);
    document.dispatchEvent(new CustomEvent("target", { detail: targetShare() }));
  });
  const targetShare = () => (wanted.value ? Number(wanted.value) / 100 : null);

  function sentence(view) {
    const now = doing(view.whole, view.segment, view.incidents);
    const since = now.since === null ? "" : view.live ? `${lasting(now.since, view.whole.end)}, since ${clock(now.since, view.whole.end)} UTC` : `${time(now.since)} UTC`;
    const text = `${now.text} ${since}`;
    state.dataset.role = now.role;
    state.style.setProperty("--key", `var(--${now.role})`);
    if (state.textContent !== text) state.textContent = text;
    return now;
  }

  function row(term, ...what) {
    return [h("dt", null, term), h("dd", null, what)];
  }

  const api = {
    element: h("div", { class: "head" }, state, facts, tiles),
    tick: (view) => sentence({ ...last, whole: view.whole }),
    first(view) {
      last = { ...last, ...view };
      sentence(last);
      replace(facts, broke(last));
      replace(tiles, figures(last));
    },
    second(view) {
      last = { ...last, ...view };
      sentence(last);
      replace(tiles, figures(last));
      replace(facts, broke(last));
    },
    judged(view) {
      last = { ...last, model: view.model };
      replace(facts, broke(last));
    },
    target: targetShare,
  };

  function broke(view) {
    const now = doing(view.whole, view.segment, view.incidents);
    const open = byWeight(view.incidents ?? []).filter(isOpen);
    const stopped = (view.restarts ?? []).at(-1);
    const isDown = view.live && now.role === "restart" && stopped && stopped.resumed_at === null;
    const does = toDo(now, view.incidents ?? [], view.model);
    const gone = view.day && view.day.wall_s - view.day.kept_s;
    return h("dl", { class: "facts" },
      isDown && row("What broke", name(stop(stopped), 120), stopped.detail ? [h("br"), h("span", { class: "quiet" }, name(stopped.detail, 200))] : null),
      isDown && row("It has cost", `${duration(stopped.cost_s)}: ${duration(stopped.lost_s)} of work lost, ${duration(stopped.restart_s)} down${worth(view, stopped.cost_s)}`),
      open.slice(0, 3).map((each) => row(h("span", { class: `severity ${each.severity}` }, each.severity), name(each.summary, 200), h("span", { class: "quiet" }, ` ${ago(each.opened_at, view.whole.end)}${each.cost?.gpu_hours ? `, ${amount(each.cost.gpu_hours)} GPU-h` : ""}${each.acknowledged ? `, ${each.acknowledged.author} takes care` : ""} `), h("a", { href: to(["incidents", each.incident_id]), "data-key": `head ${each.incident_id}` }, "see"))),
      row(heading(view.whole), h("strong", null, name(does.text, 300)), does.from ? h("span", { class: "quiet" }, ` (${does.from})`) : null),
      !isDown && gone === undefined && row("Not kept", "…"),
      !isDown && gone > 0 && row("Not kept", `${duration(gone)} of ${view.whole.wall_s > 86400 ? "the last 24 h" : "all its time"}${worth(view, gone)}`));
  }

  function worth(view, s) {
    const gpus = view.whole.details.world_size;
    if (!gpus) return "";
    const hours = (gpus * s) / 3600;
    const price = view.whole.details.price_per_gpu_hour;
    return ` = ${amount(hours)} GPU-h${price ? `, ${amount(hours * price)} in money` : ""}`;
  }

  function figures(view) {
    const { whole, day, hour } = view;
    const wish = targetShare();
    const role = wish && (day ?? whole).goodput !== null && (day ?? whole).goodput < wish ? "bad" : "";
    const open = (view.incidents ?? []).filter(isOpen);
    const money = whole.details.money;
    const gpu = whole.details.gpu_hours;
    return [
      tile("Goodput, last hour", hour ? percent(hour.goodput) : "…", whole.wall_s > 3600 ? "" : "all of it"),
      tile("Goodput, last 24 h", day ? percent(day.goodput) : "…", wish ? `target ${percent(wish)}` : whole.wall_s > 86400 ? "" : "all of it", role),
      tile("Goodput, whole run", percent(whole.goodput), `${duration(whole.wall_s)}; ${count(whole.failures, "failure")}`),
      tile("At risk", whole.at_risk_s === null ? "–" : duration(whole.at_risk_s), whole.at_risk_s === null ? "not told when saves land" : `kept, not yet saved; ${percent(whole.goodput_low)} without`),
      tile("Not kept", gpu ? `${amount(gpu.held - gpu.kept)} GPU-h` : duration(whole.wall_s - whole.kept_s), money ? `${amount(money.held - money.kept)} of ${amount(money.held)} in money` : "no price told"),
      view.incidents && tile("Open incidents", String(open.length), open.length ? `worst: ${byWeight(open)[0].severity}` : "none", open.some((each) => each.severity === "critical") ? "bad" : ""),
      h("div", { class: "tile" }, h("span", { class: "title" }, "Status"), status(whole.status, trouble(view)), h("span", { class: "behind" }, whole.origin ?? whole.details.origin, goal)),
    ];
  }

  function trouble(view) {
    const now = doing(view.whole, view.segment, view.incidents);
    if (!view.live || now.role !== "restart") return null;
    return now.sub === "stall" ? "stalled" : ["queued", "startup", "planned", "shutdown"].includes(now.sub) ? words(now.sub) : "down";
  }

  return api;
}
