// Numbers and times as text. Unknown is a dash, never 0. Times are UTC, as everywhere in Tachograph.

export const UNKNOWN = "–";
const isKnown = (value) => typeof value === "number" && Number.isFinite(value);

/** 0.8731 → "87.3 %". */
export function percent(share, digits = 1) {
  return isKnown(share) ? `${(share * 100).toFixed(digits)} %` : UNKNOWN;
}

/** Seconds → "3 d 4 h", "12 min 5 s", "8.5 s", "40 ms": two units at most, as in the report. */
export function duration(seconds) {
  if (!isKnown(seconds)) return UNKNOWN;
  const sign = seconds < 0 ? "−" : "";
  const s = Math.abs(seconds);
  if (s < 0.001 && s > 0) return `${sign}${(s * 1e6).toFixed(0)} µs`;
  if (s > 0 && s < 1) return `${sign}${Math.round(s * 1000)} ms`;
  if (s < 59.95) return `${sign}${Number(s.toPrecision(3))} s`;
  const whole = Math.round(s);
  if (whole < 3600) return `${sign}${Math.floor(whole / 60)} min${whole % 60 ? ` ${whole % 60} s` : ""}`;
  const minutes = Math.round(s / 60);
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return `${sign}${hours} h${minutes % 60 ? ` ${minutes % 60} min` : ""}`;
  const all = Math.round(s / 3600);
  return `${sign}${Math.floor(all / 24).toLocaleString("en")} d${all % 24 ? ` ${all % 24} h` : ""}`;
}

/** The same without seconds from a minute on: of what grows while it is looked at. */
export function roughly(seconds) {
  return duration(isKnown(seconds) && Math.abs(seconds) >= 60 ? Math.round(seconds / 60) * 60 : seconds);
}

/** A number with separators. */
export function number(value, digits = 0) {
  return isKnown(value) ? value.toLocaleString("en", { maximumFractionDigits: digits, minimumFractionDigits: digits }) : UNKNOWN;
}

/** As many digits as tell something: 1234 → "1,234", 0.01234 → "0.0123". */
export function amount(value) {
  if (!isKnown(value)) return UNKNOWN;
  const size = Math.abs(value);
  if (size >= 1e15 || (size > 0 && size < 1e-4)) return value.toExponential(2);
  if (size >= 100 || size === 0) return number(value);
  return size >= 1 ? number(value, size >= 10 ? 1 : 2) : String(Number(value.toPrecision(3)));
}

/** Bytes → "1.1 GB". */
export function bytes(value) {
  if (!isKnown(value)) return UNKNOWN;
  for (const [unit, size] of [["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["kB", 1e3]])
    if (value >= size) return `${(value / size).toFixed(1)} ${unit}`;
  return `${value} B`;
}

/** Logs without a clock count from their beginning; no real event is of the years before this. */
const CLOCK_FROM = 1e8;

/** Unix seconds → "2026-03-02 11:34:17"; without seconds unless asked. Of logs without a clock "+1:02:03". */
export function time(at, withSeconds = false) {
  if (!isKnown(at) || Math.abs(at) > 8e12) return UNKNOWN;
  if (Math.abs(at) < CLOCK_FROM) {
    const [hours, rest] = [Math.floor(Math.abs(at) / 3600), Math.floor(Math.abs(at) % 3600)];
    return `${at < 0 ? "−" : "+"}${hours}:${[Math.floor(rest / 60), rest % 60].map((each) => String(each).padStart(2, "0")).join(":")}`;
  }
  return new Date(at * 1000).toISOString().replace("T", " ").slice(0, withSeconds ? 19 : 16);
}

/** A tick of a time axis whose ticks are `step` seconds apart: the day where a day begins, else the time. */
export function tick(at, step) {
  const told = time(at, true);
  if (at < CLOCK_FROM) return told;
  if (step >= 86400 || told.slice(11) === "00:00:00") return told.slice(5, 10);
  return step < 60 ? told.slice(11) : told.slice(11, 16);
}

/** "11:34" if it is of the day of `now`, else with its date. */
export function clock(at, now) {
  const told = time(at);
  if (at < CLOCK_FROM) return told;
  return told.slice(0, 10) === time(now).slice(0, 10) ? told.slice(11) : told;
}

/** "14 min ago". */
export function ago(at, now) {
  return isKnown(at) ? (now - at < 1 ? "now" : `${roughly(now - at)} ago`) : UNKNOWN;
}

/** "1 failure", "2 failures". */
export function count(n, noun) {
  return `${number(n)} ${noun}${n === 1 ? "" : "s"}`;
}

export const words = (text) => String(text ?? "unknown").replaceAll("_", " ");
