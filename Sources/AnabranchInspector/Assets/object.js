// One object: what it holds, what links to it, who wrote what, and what happened to it.

import { button, changesetTime, counted, fill, h, isolated, link, number, timeElement, written } from "./dom.js";
import { get, repeat } from "./server.js";
import { frame } from "./files.js";
import { keyText, objectLink, typeText, whole } from "./values.js";
import { author, timeTravel } from "./history.js";
import { reasons, verdict, viewer } from "./as.js";

export async function page(context) {
  const path = context.get("path"), at = context.get("at"), className = context.get("class"), key = context.get("key");
  context.title(`${className} ${keyText(JSON.parse(key || "null"))}`);
  const query = { path, at, class: className, key };
  const fields = h("div"), incoming = h("div"), history = h("div", { id: "history" });
  const head = h("div", { class: "tools" }), frameTop = h("div");
  let shown, file;
  const look = async () => {
    let seen;
    [shown, seen] = await Promise.all([get("/object", query, context.signal), viewer(context, { class: className, key })]);
    if (seen) fill(history, h("h3", {}, "Why"), verdict(seen, className), reasons(seen, className));
    fill(head, h("h2", {}, h("a", { href: link("/objects", { path, at, class: className }) }, written(className)), " ", written(keyText(shown.key))),
      button("Copy as JSON", async (event) => {
        await navigator.clipboard.writeText(JSON.stringify({ class: className, key: shown.key, fields: shown.fields }, null, 2));
        event.target.textContent = "Copied";
      }), h("a", { class: "quiet", href: link("/object.json", query) }, "JSON"));
    drawFields(fields, shown, context, path, at);
  };
  const lookBack = async () => {
    const isFull = !context.viewer;
    const [links, blame] = await Promise.all([get("/links", query, context.signal), isFull && get("/blame", { path, class: className, key }, context.signal)]);
    drawLinks(incoming, links, path, at);
    if (isFull) drawHistory(history, blame, path);
  };
  [{ file }] = await Promise.all([get("/file", { path }, context.signal), look()]);
  fill(frameTop, timeTravel(context, shown.version, file));
  if (!at) {
    repeat(1000, context.signal, async () => {
      const now = await get("/head", { path }, context.signal);
      if (now.version === shown.version) return;
      await look();
      await lookBack();
    });
  }
  const content = frame(context, "/objects", frameTop, head, h("div", { class: "columns" },
    h("div", {}, h("h3", {}, "Values"), fields, h("h3", {}, "Linked from"), incoming),
    h("div", {}, history)));
  content.started = async () => {
    await lookBack();
    if (location.hash === "#history") history.scrollIntoView();
  };
  return content;
}

function drawFields(place, shown, context, path, at) {
  if (shown.fields === null) {
    fill(place, h("p", { class: "muted" }, shown.hidden ? "The user does not see this object." : at ? `There is no such object at version ${at}.` : "There is no such object: it may have been erased. Its history says when."));
    return;
  }
  const types = new Map(shown.class.properties.map((property) => [property.name, property]));
  fill(place, h("table", { class: "fields" }, h("caption", { class: "hidden" }, "Values"), h("tbody", {},
    Object.entries(shown.fields).map(([name, value]) => h("tr", {},
      h("th", { scope: "row" }, written(name), h("small", {}, typeText(types.get(name) ?? { type: "" }))),
      h("td", {}, whole(value, { path, at })))))));
}

function drawLinks(place, answer, path, at) {
  const groups = new Map();
  for (const each of answer.links) {
    const name = `${each.class}.${each.field}`;
    groups.set(name, [...(groups.get(name) ?? []), each]);
  }
  fill(place, answer.links.length === 0 && h("p", { class: "muted" }, answer.complete ? "Nothing links here." : `None among the first ${number(answer.looked)} objects.`),
    [...groups].map(([name, links]) => h("div", { class: "linked" }, h("b", {}, written(name)), " ",
      links.map((each) => [h("a", { href: objectLink(path, each.class, each.key, { at }) }, written(keyText(each.key))), " "]))),
    !answer.complete && answer.links.length > 0 && h("p", { class: "muted" }, `${counted(answer.looked, "object")} looked at; there may be more.`));
}

/** Names and texts in the words of an instruction. */
const quoted = /"(?:[^"\\]|\\.)*"/g;

function drawHistory(place, answer, path) {
  const blame = answer.blame;
  fill(place,
    h("h3", {}, "Who wrote what"),
    blame ? h("table", { class: "fields blame" }, h("caption", { class: "hidden" }, "Writers of the values"), h("tbody", {}, blame.values.map((line) => h("tr", {},
      h("th", { scope: "row" }, written(line.place)),
      h("td", {}, line.by ? [h("a", { href: link("/version", { path, version: line.by.version }) }, `version ${line.by.version}`), " ", author(line.by),
        h("small", {}, " ", timeElement(changesetTime(line.by.timestamp)))] : h("span", { class: "muted" }, `version ${blame.known_after} or earlier`)))))) : h("p", { class: "muted" }, "The object does not exist now."),
    h("h3", {}, counted(answer.count, "version"), " changed it"),
    h("ol", { class: "changes" }, answer.changes.map((change) => h("li", {},
      h("p", {}, h("a", { href: link("/version", { path, version: change.version }) }, `Version ${number(change.version)}`), " ", author(change), " ",
        h("small", {}, timeElement(changesetTime(change.timestamp))), change.merged && h("span", { class: "badge merge" }, "merged")),
      change.lines.length > 0 && h("pre", {}, written(change.lines.join("\n").replace(quoted, isolated), { dir: "ltr" }))))));
}
