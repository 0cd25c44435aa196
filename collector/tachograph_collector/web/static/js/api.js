// Asking the collector. Answers come with ETags, so what has not changed costs 304 and no body.

/** Nobody is logged in (401), or who is may not read (403); the message is the collector's. */
export class NeedsLogin extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

export class Refused extends Error {
  constructor(status, title, detail) {
    super(detail || title);
    this.status = status;
    this.title = title;
  }
}

/** Asks, and gives the JSON. Throws NeedsLogin, or Refused with the sentence that the collector said. */
export async function get(path, params = {}, signal = undefined) {
  return answered(await fetch(address(path, params), { cache: "no-cache", credentials: "same-origin", signal,
    headers: { Accept: "application/json" } }), true);
}

/** The same, null where there is no such thing. */
export async function getIfThere(path, params = {}, signal = undefined) {
  try {
    return await get(path, params, signal);
  } catch (error) {
    if (error instanceof Refused && [404, 405, 422].includes(error.status)) return null;
    throw error;
  }
}

/** Writes. */
export async function post(path, body = undefined, method = "POST") {
  const sent = body === undefined ? {} : { body: JSON.stringify(body) };
  return answered(await fetch(path, { method, credentials: "same-origin", ...sent,
    headers: { Accept: "application/json", ...(body === undefined ? {} : { "Content-Type": "application/json" }) } }));
}

async function answered(response, isRead = false) {
  if (response.status === 204) return null;
  const told = await response.json().catch(() => null);
  if (response.ok && told !== null) return told;
  if (response.status === 401 || (isRead && response.status === 403)) throw new NeedsLogin(response.status, told?.detail ?? "");
  throw new Refused(response.status, told?.title ?? response.statusText, told?.detail ?? `the collector answered ${response.status}`);
}

function address(path, params) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(params)) {
    for (const each of Array.isArray(value) ? value : [value])
      if (each !== null && each !== undefined && each !== "") query.append(key, each);
  }
  const text = query.toString();
  return text ? `${path}${path.includes("?") ? "&" : "?"}${text}` : path;
}

/** The path of a run's route. Names that no path can carry go as a parameter. */
export function ofRun(run, rest = "") {
  return ["", ".", ".."].includes(run) ? `v1/runs/-${rest}?run=${encodeURIComponent(run)}` : `v1/runs/${encoded(run)}${rest}`;
}

/** A name as one segment of a path or a hash. */
export function encoded(text) {
  return encodeURIComponent(text.toWellFormed?.() ?? text);
}

/** All pages of a list, up to `most` rows. */
export async function all(path, params, key, most, signal) {
  const first = await get(path, params, signal);
  const rows = first[key];
  let next = first.next;
  while (next && rows.length < most) {
    const more = await get(next.replace(/^\//, ""), {}, signal);
    rows.push(...more[key]);
    next = more.next;
  }
  return { ...first, [key]: rows, next };
}
