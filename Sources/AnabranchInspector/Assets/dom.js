// Elements. Whatever a client wrote becomes a text node or an attribute here, never markup.

const svgTags = new Set(["svg", "path", "circle", "line", "rect", "g", "title", "text", "polyline"]);

/** Makes an element: h("a", {href, class: "x", onclick}, "text", child); "svg:a" is a link within a picture. Null and false children are left out. */
export function h(tag, properties = {}, ...children) {
  const isSVG = svgTags.has(tag) || tag === "svg:a";
  const element = isSVG ? document.createElementNS("http://www.w3.org/2000/svg", tag.replace("svg:", "")) : document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled" || name === "indeterminate") element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/** Replaces what an element holds. */
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

/** The same for what is shown anew while somebody looks: nothing happens if it has not changed, and the focus stays. */
export function refill(element, data, ...children) {
  const state = JSON.stringify(data);
  if (element.shown === state) return element;
  element.shown = state;
  const held = element.contains(document.activeElement) ? identity(document.activeElement) : "";
  fill(element, ...children.map((each) => (typeof each === "function" ? each() : each)));
  if (held) [...element.querySelectorAll("a, button, input, summary")].find((each) => identity(each) === held)?.focus();
  return element;
}

const identity = (element) => element.getAttribute("aria-label") ?? element.getAttribute("href") ?? element.textContent;

/** A text that somebody wrote, in whatever direction it is read. */
export const written = (text, properties = {}) => h("bdi", { class: "written", ...properties }, text);

/** A path with its percent-encoded UTF-8 as text, where it is one. */
export function readable(path) {
  try { return decodeURIComponent(path); } catch { return path; }
}

/** A path of a file, which begins at the left whatever its names are written in. */
export const writtenPath = (path) => written(readable(path), { dir: "ltr" });

/** A name or value within a longer text: one that is read from the right does not turn round what stands next to it. */
export const isolated = (text) => (/[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/.test(text) ? `\u2068${text}\u2069` : text);

const viewPages = new Set(["/file", "/objects", "/object", "/history", "/edits", "/version", "/diff", "/clients",
  "/objects.json", "/object.json", "/links.json", "/facets.json"]);
let view = {};

/** The user as whom a file is looked at stays when a link leads to another page of the file. */
export function keepView(path, as, client) { view = as ? { path, as, client } : {}; }

/** An address of a page: link("/file", {path}). Empty values are left out. */
export function link(page, query = {}) {
  const search = new URLSearchParams();
  if (view.as && query.path === view.path && viewPages.has(page)) query = { as: view.as, client: view.client, ...query };
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "" && value !== false) search.set(name, value);
  }
  const text = search.toString();
  return text ? `${page}?${text}` : page;
}

/** A button with a sentence for those who do not see its picture. */
export const button = (label, onclick, properties = {}) => h("button", { type: "button", onclick, ...properties }, label);

const units = ["B", "KiB", "MiB", "GiB", "TiB"];

export function bytes(count) {
  let size = count, unit = 0;
  while (size >= 1024 && unit < units.length - 1) [size, unit] = [size / 1024, unit + 1];
  return `${unit === 0 || size >= 100 ? Math.round(size) : size.toFixed(1)} ${units[unit]}`;
}

const grouped = new Intl.NumberFormat("en");

export const number = (value) => grouped.format(value);

/** `1 version`, `2 versions`. */
export const counted = (count, word) => `${number(count)} ${word}${count === 1 ? "" : "s"}`;

/** A date as all pages write it; `time` is in milliseconds since 1970. */
export function moment(time) {
  const date = new Date(time);
  if (Number.isNaN(date.getTime())) return "no date";
  return date.toISOString().replace("T", " ").replace(/(\.000)?Z$/, "");
}

/** How long ago, roughly. */
export function ago(time, now = Date.now()) {
  const seconds = Math.round((now - time) / 1000);
  if (seconds < -60) return "ahead of now";
  if (seconds < 5) return "now";
  for (const [name, length] of [["d", 86400], ["h", 3600], ["min", 60]]) {
    if (seconds >= length) return `${Math.floor(seconds / length)} ${name} ago`;
  }
  return `${seconds} s ago`;
}

export const timeElement = (time) => h("time", { datetime: moment(time), "data-time": time, title: `${moment(time)} UTC` }, ago(time));

/** How long ago it was goes on by itself. */
setInterval(() => {
  for (const element of document.querySelectorAll("time[data-time]")) {
    const text = ago(Number(element.dataset.time));
    if (element.textContent !== text) element.textContent = text;
  }
}, 5000);

/** Timestamps of changesets count milliseconds since 2015. */
export const changesetTime = (timestamp) => timestamp + 1420070400000;

/** Asks before something is done. Resolves to whether it shall be. */
export function confirm(title, explanation, action) {
  return new Promise((resolve) => {
    const close = (answer) => { dialog.close(); dialog.remove(); resolve(answer); };
    const dialog = h("dialog", { "aria-labelledby": "confirm-title", oncancel: () => close(false) },
      h("h2", { id: "confirm-title" }, title),
      explanation.map((line) => h("p", {}, line)),
      h("div", { class: "buttons" },
        button("Cancel", () => close(false), { autofocus: true }),
        button(action, () => close(true), { class: "danger" })));
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Says something in the line below the bar. */
export function notify(text, isError = false) {
  const notice = document.getElementById("notice");
  notice.hidden = !text;
  notice.className = isError ? "notice error" : "notice";
  notice.textContent = text;
}
