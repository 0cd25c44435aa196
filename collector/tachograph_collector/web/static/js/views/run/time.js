// Where the time went: the strip of minutes, the accounts over time, goodput over time, and the waterfall.

import { floating, legend } from "../../charts/bars.js";
import { lines } from "../../charts/lines.js";
import { strip } from "../../charts/strip.js";
import { ACCOUNTS } from "../../charts/theme.js";
import { h, replace, section, table } from "../../dom.js";
import { amount, count, duration, percent, words } from "../../format.js";

export function time({ title, zoom }) {
  let view = null;
  let judged = null;
  const band = strip("Strip of minutes", zoom);
  const restated = h("p", { class: "quiet" });
  const accounts = lines("Accounts over time", {
    title: "Accounts over time, share of each stretch", y: [0, 1], format: (share) => percent(share, 0), onZoom: zoom, height: 150,
    series: [...ACCOUNTS].reverse().map((account) => ({ label: account, colour: account, fill: account, width: 0, stepped: true, format: (share) => percent(share), shown: (index) => shareOf(account, index) })),
    summary: () => whole(view),
  });
  const goodput = lines("Goodput over time", {
    title: "Goodput so far, against target and model", format: (share) => percent(share, 0), onZoom: zoom, height: 190,
    series: [{ label: "since the beginning of what is shown", colour: "kept", width: 2, format: (share) => percent(share) }, { label: "last 24 h", colour: "checkpoint", dash: [6, 4], format: (share) => percent(share) }],
    levels: () => [
      ...(judged && Number.isFinite(judged.goodput.band_low) ? [{ value: judged.goodput.band_low, high: judged.goodput.band_high, colour: "idle" }] : []),
      ...(judged && Number.isFinite(judged.goodput.predicted) ? [{ value: judged.goodput.predicted, colour: "quiet" }] : []),
      ...(target() ? [{ value: target(), colour: "lost" }] : []),
    ],
    summary: () => said(),
  });
  const fall = h("div");
  const target = () => Number(document.getElementById("target")?.value || 0) / 100;

  function shareOf(account, index) {
    const row = view.minutes[index];
    const all = sum(row);
    return all ? row[`${account}_s`] / all : null;
  }

  function said() {
    if (!judged) return "";
    const { goodput: told } = judged;
    const parts = [Number.isFinite(told.predicted) && `dashed: the model predicts ${percent(told.predicted)}`, Number.isFinite(told.band_low) && `grey: 95 % of runs of this length lie between ${percent(told.band_low)} and ${percent(told.band_high)}`, target() > 0 && `dashed red: target ${percent(target())}`];
    return parts.filter(Boolean).join("; ");
  }

  document.addEventListener("target", () => view && goodput.draw(course(view)));

  return {
    element: section("Minute by minute", "minutes", legend(ACCOUNTS), band.element, restated, accounts.element, goodput.element, fall),
    draw(next) {
      view = next;
      band.draw(view.minutes, view.every, view.since, view.until);
      const changed = view.minutes.filter((row) => row.revision > 1).length;
      restated.textContent = changed ? `${count(changed, "stretch")}${changed > 1 ? "es" : ""} marked below the strip were booked differently at first: a failure took work back.`.replace("stretchses", "stretches") : "";
      const columns = [view.minutes.map((row) => row.start)];
      for (const account of [...ACCOUNTS].reverse()) {
        const upTo = ACCOUNTS.slice(0, ACCOUNTS.indexOf(account) + 1);
        columns.push(view.minutes.map((row) => { const all = sum(row); return all ? upTo.reduce((total, each) => total + row[`${each}_s`], 0) / all : null; }));
      }
      accounts.draw(columns);
      goodput.draw(course(view));
      replace(fall, waterfall(view.part, view.isZoomed));
    },
    judged(next) {
      judged = next.model;
      goodput.draw(course(view));
    },
  };
}

const sum = (row) => ACCOUNTS.reduce((total, account) => total + row[`${account}_s`], 0);

function whole(view) {
  const part = view.part;
  return ACCOUNTS.map((account) => `${account} ${percent(part.wall_s ? part[`${account}_s`] / part.wall_s : null)}`).join(", ");
}

/** [ends, goodput since the beginning, goodput of the 24 h before]. */
function course({ minutes, every }) {
  const ends = [];
  const soFar = [];
  const day = [];
  let [kept, all, first, dayKept, dayAll] = [0, 0, 0, 0, 0];
  for (const row of minutes) {
    const total = sum(row);
    kept += row.kept_s;
    all += total;
    dayKept += row.kept_s;
    dayAll += total;
    while (minutes[first].start <= row.start - 86400) {
      dayKept -= minutes[first].kept_s;
      dayAll -= sum(minutes[first]);
      first += 1;
    }
    ends.push(row.start + every);
    soFar.push(all ? kept / all : null);
    day.push(dayAll > 0 ? Math.max(0, dayKept) / dayAll : null);
  }
  return [ends, soFar, day];
}

/** From all the time down to what was kept, by sub-account. */
function waterfall(part, isZoomed) {
  const wall = part.wall_s;
  if (!wall) return null;
  const subs = Object.entries(part.details.sub_accounts).filter(([key, s]) => s > 0 && !key.startsWith("kept/")).sort((a, b) => b[1] - a[1]);
  const gpu = part.details.gpu_hours;
  const money = part.details.money;
  const within = (account) => (part[`${account}_s`] > 0 ? 1 / part[`${account}_s`] : 0);
  let left = wall;
  const rows = [{ what: "all", from: 0, to: 1, s: wall, role: "idle", gpu: gpu?.held, money: money?.held }];
  for (const [key, s] of subs) {
    const [account, sub] = key.split("/");
    const share = s * within(account);
    rows.push({ what: `${account}: ${words(sub)}`, from: (left - s) / wall, to: left / wall, s, role: account, gpu: gpu && gpu[account] * share, money: money && money[account] * share });
    left -= s;
  }
  rows.push({ what: "kept", from: 0, to: part.kept_s / wall, s: part.kept_s, role: "kept", gpu: gpu?.kept, money: money?.kept });
  const title = `Where the time went${isZoomed ? ", in what is shown" : ""}`;
  return [h("h3", null, title), table(title, [
    { title: "", cell: (row) => row.what },
    { title: "", wide: true, cell: (row) => floating(row.from, row.to, row.role) },
    { title: "share", num: true, cell: (row) => percent(row.s / wall) },
    { title: "time", num: true, cell: (row) => duration(row.s) },
    { title: "GPU-h", num: true, cell: (row) => amount(row.gpu) },
    { title: "money", num: true, cell: (row) => amount(row.money) },
  ], rows, { class: "waterfall cards" })];
}
