// Asking again: while the page is looked at, until the view is left, more rarely while nothing answers.

const state = { failed: false };

/** Calls `work` now and every `seconds`, until `signal`. What it throws is shown, and it goes on. */
export function poll(signal, seconds, work, onError = () => {}) {
  let timer = 0;
  let wait = seconds;
  let isRunning = false;
  const turn = async () => {
    if (signal.aborted || isRunning) return;
    isRunning = true;
    try {
      await work();
      wait = seconds;
      connection("");
    } catch (error) {
      if (signal.aborted) return;
      wait = Math.min(wait * 2, 60);
      if (error instanceof TypeError) connection("The collector does not answer; what is shown may be old. Trying again.");
      else onError(error);
    } finally {
      isRunning = false;
    }
    if (!signal.aborted) timer = setTimeout(turn, wait * 1000);
  };
  const looked = () => {
    clearTimeout(timer);
    if (!document.hidden) turn();
  };
  document.addEventListener("visibilitychange", looked, { signal });
  signal.addEventListener("abort", () => clearTimeout(timer));
  turn();
  return () => {
    clearTimeout(timer);
    return turn();
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
