// One run: the answer first, then where its time went, what stopped it, how it trains. Each part is a module in run/.

import { get, getIfThere, ofRun, Refused } from "../api.js";
import { h, name, replace } from "../dom.js";
import { poll } from "../live.js";
import { stay, to } from "../route.js";
import { failures } from "./run/failures.js";
import { head } from "./run/head.js";
import { model } from "./run/model.js";
import { range } from "./run/range.js";
import { everyOf, SHORT_S, stretches } from "./run/stretches.js";
import { time } from "./run/time.js";
import { training } from "./run/training.js";
import { watched } from "./run/watched.js";

const MAX_COLUMNS = 720;
const STEPS = [60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];

export function run(root, route, signal, fail) {
  const title = route.path[1];
  const window_ = { since: seconds(route.params.get("since")), until: seconds(route.params.get("until")) };
  const context = { title, signal, zoom, target: null };
  const parts = { head: head(context), range: range(context), time: time(context), model: model(context), failures: failures(context), training: training(context), watched: watched(context) };
  const nowhere = h("p", { hidden: true }, h("a", { href: to(["fleet"]) }, "All runs"));
  const body = h("div", { hidden: true }, parts.head.element, parts.range.element, parts.time.element,
    h("div", { class: "columns" }, parts.model.elements), parts.watched.incidents, parts.training.element, parts.failures.element, parts.watched.nodes);
  replace(root, h("h1", { class: "run-name" }, name(title, 120)), nowhere, body);
  let seen = "";
  let summary = null;
  let slowAt = 0;

  function zoom(since, until) {
    if (since === null || !summary) [window_.since, window_.until] = [null, null];
    else {
      const [low, high] = [summary.start, summary.end];
      const wide = Math.min(high - low, Math.max(600, until - since));
      const begin = Math.max(low, Math.min(since, high - wide));
      [window_.since, window_.until] = begin <= low && begin + wide >= high ? [null, null] : [Math.floor(begin), Math.ceil(begin + wide)];
    }
    stay(["runs", title], window_);
    seen = "";
    slowAt = 0;
    again();
  }

  /** What every part is given. `part` is the run within the window, `whole` all of it. */
  async function turn(signal) {
    summary = await get(ofRun(title), { records: false }, signal);
    const whole = summary;
    const live = whole.status === "running";
    const since = Math.max(whole.start, window_.since ?? whole.start);
    const until = Math.min(whole.end, window_.until ?? whole.end);
    const view = { title, whole, live, since, until, isZoomed: window_.since !== null, now: whole.end, slow: Date.now() / 1000 - slowAt > 15 };
    const stamp = `${whole.stored.version} ${since} ${until}`;
    if (stamp === seen) {
      parts.head.tick(view);
      return;
    }
    const every = STEPS.find((each) => (until - since) / each <= MAX_COLUMNS) ?? STEPS.at(-1);
    const inWindow = view.isZoomed ? { since, until } : {};
    const isShort = !view.isZoomed && until - since <= SHORT_S;
    const [minutes, last, part, restarts, incidents] = await Promise.all([
      get(ofRun(title, "/minutes"), { every: `${every / 60}m`, ...inWindow }, signal),
      whole.wall_s > 0 ? get(ofRun(title, "/segments"), { since: Math.max(whole.start, whole.end - 1), limit: 100 }, signal) : { segments: [] },
      view.isZoomed ? get(ofRun(title), { records: false, since, until }, signal) : whole,
      get(ofRun(title, "/restarts"), { limit: 500, latest: true, ...inWindow }, signal),
      getIfThere(ofRun(title, "/incidents"), { limit: 200, ...inWindow }, signal),
    ]);
    Object.assign(view, { minutes: minutes.minutes, every, segment: last.segments.at(-1), part });
    Object.assign(view, { restarts: restarts.restarts.reverse(), moreRestarts: restarts.next, incidents: incidents?.incidents ?? [] });
    if (isShort) {
      const all = await get(ofRun(title, "/segments"), { limit: 5000 }, signal);
      const fine = everyOf(until - since);
      if (!all.next) Object.assign(view, { minutes: stretches(all.segments, since, until, fine), every: fine });
    }
    [body.hidden, nowhere.hidden] = [false, true]; // what would only jump about was hidden until now
    parts.range.draw(view);
    parts.head.first(view);
    parts.time.draw(view);
    if (!seen) performance.mark("run drawn");
    seen = stamp;
    await second(view, inWindow, signal);
  }

  /** What may come after the first paint. */
  async function second(view, inWindow, signal) {
    const { whole, until } = view;
    const day = { since: Math.max(whole.start, whole.end - 86400) };
    const hour = { since: Math.max(whole.start, whole.end - 3600) };
    const [dayPart, hourPart] = await Promise.all([
      whole.wall_s > 86400 ? get(ofRun(title), { records: false, ...day }, signal) : whole,
      whole.wall_s > 3600 ? get(ofRun(title), { records: false, ...hour }, signal) : whole,
    ]);
    Object.assign(view, { day: dayPart, hour: hourPart });
    parts.head.second(view);
    parts.watched.draw(view);
    parts.failures.restarts(view);
    if (!view.slow) return;
    slowAt = Date.now() / 1000;
    const [steps, saves, attempts, nodes, sights] = await Promise.all([
      get(ofRun(title, "/steps"), { points: 300, metric: ["loss", "grad_norm", "tokens", "step_s"], ...inWindow }, signal).catch(unlessRefused),
      get(ofRun(title, "/checkpoints"), { limit: 300, latest: true, since: Math.max(view.since, until - 86400), until: view.isZoomed ? until : null }, signal),
      get(ofRun(title, "/attempts"), { limit: 50, latest: true, ...inWindow }, signal),
      getIfThere(ofRun(title, "/nodes"), { limit: 500 }, signal),
      getIfThere(ofRun(title, "/sights"), {}, signal),
    ]);
    Object.assign(view, { steps, checkpoints: saves.checkpoints.reverse(), moreCheckpoints: saves.next, attempts: attempts.attempts, moreAttempts: attempts.next, nodes: nodes?.nodes ?? [] });
    parts.training.draw(view);
    parts.failures.rest(view);
    parts.watched.drawNodes(view);
    parts.watched.drawSights(sights?.sights ?? []);
    const told = await get(ofRun(title, "/model"), inWindow, signal).catch(unlessRefused);
    Object.assign(view, { model: told?.model ?? null });
    parts.model.draw(view);
    parts.time.judged(view);
    parts.head.judged(view);
  }

  const again = poll(signal, 5, turn, (error) => {
    if (error.status === 404 && !summary) nowhere.hidden = false;
    fail(error);
  });
  context.again = () => {
    seen = "";
    again();
  };
}

function unlessRefused(error) {
  if (error instanceof Refused) return null;
  throw error;
}

function seconds(text) {
  const value = text === null || text === "" ? NaN : Number(text);
  return Number.isFinite(value) ? value : null;
}
