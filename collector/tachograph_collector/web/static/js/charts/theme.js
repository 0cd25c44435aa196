// Colours of the style sheet for what is drawn on a canvas.

/** The value of a custom property: colour("lost"). */
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim() || "#888";
}

export const ACCOUNTS = ["kept", "checkpoint", "lost", "restart"];

/** Phases of a restart in the order in which they follow one another. */
export const PHASES = ["queued", "startup", "detect", "replace", "reload", "warmup", "stall", "planned", "shutdown", "other"];
