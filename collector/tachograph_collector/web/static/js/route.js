// Where one is, in the address behind the #: #/runs/NAME?since=…&until=… Names are one segment each, percent-encoded.

import { encoded } from "./api.js";

/** {path: ["runs", "NAME"], params: URLSearchParams} */
export function here() {
  const [path, query = ""] = splitOnce(location.hash.replace(/^#\/?/, ""), "?");
  return { path: path === "" ? ["fleet"] : path.split("/").map(decoded), params: new URLSearchParams(query) };
}

function splitOnce(text, by) {
  const at = text.indexOf(by);
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)];
}

function decoded(segment) {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

/** The address of a view. */
export function to(path, params = {}) {
  const query = new URLSearchParams(Object.entries(params).filter(([, value]) => value !== null && value !== undefined && value !== ""));
  const text = query.toString();
  return `#/${path.map((each) => encoded(String(each))).join("/")}${text ? `?${text}` : ""}`;
}

/** Go there without a new entry in the history: zooming is no going. */
export function stay(path, params) {
  history.replaceState(null, "", to(path, params));
}
