// Of a run that is minutes old its minutes show nothing: stretches of some seconds instead, summed from its segments.

import { ACCOUNTS } from "../../charts/theme.js";

export const SHORT_S = 600;

/** How long a stretch is: whole seconds, and 120 of them at most. */
export const everyOf = (lasts_s) => Math.max(1, Math.ceil(lasts_s / 120));

/** Rows as those of minutes, but for restatements, of which segments don't tell. */
export function stretches(segments, since, until, every) {
  const rows = Array.from({ length: Math.max(1, Math.ceil((until - since) / every)) }, (_, index) => ({
    start: since + index * every, revision: 1, incomplete: false, ...Object.fromEntries(ACCOUNTS.map((account) => [`${account}_s`, 0])),
  }));
  for (const segment of segments) {
    const [from, to] = [Math.max(since, segment.start), Math.min(until, segment.end)];
    for (let index = Math.floor((from - since) / every); index < rows.length && rows[index].start < to; index += 1)
      rows[index][`${segment.account}_s`] += Math.max(0, Math.min(to, rows[index].start + every) - Math.max(from, rows[index].start));
  }
  for (const row of rows) row.label = ACCOUNTS.reduce((most, account) => (row[`${account}_s`] > row[`${most}_s`] ? account : most));
  return rows;
}
