// Elements are made here and nowhere else. Text only ever becomes text nodes, so a name can hold whatever it likes.

const SVG = "http://www.w3.org/2000/svg";

/** An element: h("td", {class: "num", title: name}, name). Children are nodes, texts, lists of them, or null. */
export function h(tag, props, ...children) {
  return filled(document.createElement(tag), props, children);
}

/** The same for SVG. */
export function s(tag, props, ...children) {
  return filled(document.createElementNS(SVG, tag), props, children);
}

function filled(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, handler] of Object.entries(value)) element.addEventListener(event, handler);
    else if (name === "css") for (const [key, told] of Object.entries(value)) element.style.setProperty(key, told);
    else if (name === "value" && "value" in element) element.value = value;
    else if (name === "href" && !isOurs(value)) continue;
    else element.setAttribute(name, value === true ? "" : clean(String(value)));
  }
  append(element, children);
  return element;
}

/** Addresses within the page, or of the web; never javascript: or data:. */
function isOurs(address) {
  return String(address).startsWith("#") || /^(https?:\/\/|v1\/|docs$)/.test(String(address));
}

function append(element, children) {
  for (const child of children) {
    if (Array.isArray(child)) append(element, child);
    else if (child instanceof Node) element.append(child);
    else if (child !== null && child !== undefined && child !== false) element.append(clean(String(child)));
  }
}

// Control characters and those that turn the direction of writing: a name must not rearrange the text around it.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** Text with such characters as escapes. */
export function clean(text) {
  return text.replace(UNSEEN, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** A name that may be long, with all of it in the title. */
export function name(text, most = 60) {
  const whole = text === "" ? "(no name)" : clean(String(text));
  const letters = Array.from(whole);
  const short = letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : whole;
  return h("bdi", short === whole ? {} : { title: letters.slice(0, 300).join("") }, short);
}

/** Put other children into an element; what had the focus (by its data-key) has it again. */
export function replace(element, ...children) {
  const had = element.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  const open = new Set([...element.querySelectorAll("details[open][data-key]")].map((each) => each.dataset.key));
  element.replaceChildren();
  append(element, children);
  for (const each of element.querySelectorAll("details[data-key]")) if (open.has(each.dataset.key)) each.open = true;
  if (had) [...element.querySelectorAll("[data-key]")].find((each) => each.dataset.key === had)?.focus();
}

/** Tell a screen reader. */
export function say(text) {
  document.getElementById("said").textContent = clean(text);
}

/**
 * A table. `columns`: [{title, cell(row), num, wide}], `rows` of anything. Of the class "cards" each row is a card on a phone,
 * its cells one after the other with their titles, `wide` ones on a line of their own; roles keep it a table for who hears it.
 */
export function table(caption, columns, rows, props = {}) {
  const { empty = "None.", ...more } = props;
  if (!rows.length) return h("p", { class: "quiet" }, empty);
  const cell = (each, row) => {
    const told = [each.cell(row)].flat().filter((part) => part !== "" && part !== null && part !== undefined);
    return h("td", { role: "cell", class: [each.num && "num", each.wide && "wide", !told.length && "nothing"].filter(Boolean).join(" ") || null, "data-title": each.title || null }, told);
  };
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", { ...more, role: "table" },
      h("caption", { class: "unseen" }, caption),
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, columns.map((each) => h("th", { scope: "col", role: "columnheader", class: each.num && "num" }, each.title)))),
      h("tbody", { role: "rowgroup" }, rows.map((row) => h("tr", { role: "row" }, columns.map((each) => cell(each, row)))))));
}

/** A section with a heading. */
export function section(title, id, ...children) {
  return h("section", { "aria-labelledby": `${id}-title`, id }, h("h2", { id: `${id}-title` }, title), children);
}
