// Asking again: while the page is looked at, until the view is left, more rarely while nothing answers.

const state = { failed: false };

/**
 * Calls `work(signal)` now and every `seconds`, until `signal`. What it throws is shown, and it goes on. Gives a function
 * that has it work anew at once: what is under way is given up, since it was asked for something else.
 */
export function poll(signal, seconds, work, onError = () => {}) {
  let timer = 0;
  let wait = seconds;
  const next = latest(signal);
  const turn = async () => {
    clearTimeout(timer);
    const mine = next();
    if (mine.aborted) return;
    try {
      await work(mine);
      wait = seconds;
      document.querySelector("#main > .problem")?.remove();
      connection("");
    } catch (error) {
      if (mine.aborted) return;
      wait = Math.min(wait * 2, 60);
      if (error instanceof TypeError) connection("The collector does not answer; what is shown may be old. Trying again.");
      else onError(error);
    }
    if (mine.aborted) return;
    document.getElementById("main").dataset.loaded = "yes";
    timer = setTimeout(turn, wait * 1000);
  };
  const looked = () => {
    clearTimeout(timer);
    if (!document.hidden) turn();
  };
  document.addEventListener("visibilitychange", looked, { signal });
  signal.addEventListener("abort", () => clearTimeout(timer));
  turn();
  return turn;
}

/** Gives a signal each time it is called, and gives up what was asked with the one before: only the last answer counts. */
export function latest(signal) {
  let current = null;
  return () => {
    current?.abort();
    current = new AbortController();
    return AbortSignal.any([signal, current.signal]);
  };
}

function connection(text) {
  const element = document.getElementById("connection");
  if (!text && !state.failed) return;
  state.failed = Boolean(text);
  element.hidden = !text;
  element.textContent = text;
}

/** Calls `work` once nothing came for `ms`. */
export function settled(ms, work) {
  let timer = 0;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...args), ms);
  };
}
