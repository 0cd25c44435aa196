// The page: which view the address asks for, the frame around it, and what to do where a token is needed.

import { NeedsLogin } from "./api.js";
import { h, replace, say } from "./dom.js";
import { here } from "./route.js";
import { theme, tools } from "./tools.js";
import { compare } from "./views/compare.js";
import { fleet } from "./views/fleet.js";
import { incident, incidents } from "./views/incidents.js";
import { login } from "./views/login.js";
import { node, nodes } from "./views/nodes.js";
import { planner } from "./views/planner.js";
import { run } from "./views/run.js";

const VIEWS = [["fleet", "Fleet"], ["compare", "Compare"], ["incidents", "Incidents"], ["nodes", "Nodes"], ["plan", "Planner"]];
let leave = new AbortController();
let shown = "";

function view({ path }) {
  const [first, second] = path;
  if (first === "runs" && second !== undefined) return run;
  if (first === "incidents") return second === undefined ? incidents : incident;
  if (first === "nodes") return second === undefined ? nodes : node;
  return { compare, plan: planner }[first] ?? fleet;
}

/** Show what the address asks for. A view is called with its element, the route, a signal that ends it, and `fail`. */
function show() {
  leave.abort();
  leave = new AbortController();
  const route = here();
  const main = document.getElementById("main");
  const { signal } = leave;
  const fail = (error) => {
    if (signal.aborted) return;
    if (error instanceof NeedsLogin) {
      leave.abort();
      login(main, error, show);
      return;
    }
    problem(main, error);
  };
  document.documentElement.dataset.view = route.path[0];
  document.title = [...route.path.slice(1), route.path[0], "Tachograph"].join(" · ");
  for (const link of document.querySelectorAll("#views a"))
    link.toggleAttribute("aria-current", link.dataset.view === (route.path[0] === "runs" ? "fleet" : route.path[0]));
  main.replaceChildren();
  delete main.dataset.loaded;
  Promise.resolve(view(route)(main, route, signal, fail)).catch(fail);
  const place = route.path.join("/");
  if (shown && shown !== place) {
    main.focus();
    scrollTo(0, 0);
    say(document.title);
  }
  shown = place;
}

function problem(main, error) {
  let box = main.querySelector(".problem");
  if (!box) main.prepend((box = h("div", { class: "problem", role: "alert" })));
  replace(box, h("strong", null, error.title ?? "Something went wrong"), " ", error.message);
}

document.getElementById("views").append(...VIEWS.map(([key, title]) => h("a", { href: `#/${key}`, "data-view": key }, title)));
theme(() => show());
tools(document.getElementById("tools"), show);
addEventListener("hashchange", show);
show();
