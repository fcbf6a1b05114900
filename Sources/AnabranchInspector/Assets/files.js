// The list of files, one file, and the frame around all pages of a file.

import { bytes, counted, h, link, number, readable, refill, written, writtenPath } from "./dom.js";
import { get, repeat } from "./server.js";
import { timeTravel } from "./history.js";
import { diagram } from "./schema.js";
import { reasons, viewBar, viewer } from "./as.js";
import { typeText } from "./values.js";

const shownFiles = 200;

export async function list(context) {
  context.title("Files");
  const [sort, order] = [context.get("sort") || "path", context.get("order")];
  const body = h("tbody"), note = h("p", { class: "muted", role: "status" });
  const offset = Number(context.get("offset")) || 0;
  const first = new Map();
  const growth = ({ path, version, log_bytes: log, archived_bytes: archived }) => {
    if (!first.has(path)) first.set(path, { version, size: log + archived });
    const more = version - first.get(path).version, size = log + archived - first.get(path).size;
    return more > 0 && [`+ ${counted(more, "version")}`, size > 0 && h("small", {}, ` ${bytes(size)}`)];
  };
  const look = async (q) => {
    const data = await get("/files", { q, sort, order, offset: offset || "", limit: shownFiles }, context.signal);
    refill(body, data.files, () => data.files.map((file) => h("tr", {},
      h("td", { class: "name" }, h("a", { href: link("/file", { path: file.path }) }, writtenPath(file.path))),
      h("td", { class: "n" }, number(file.version)),
      h("td", { class: "n" }, bytes(file.log_bytes), file.archived_bytes > 0 && h("small", {}, ` + ${bytes(file.archived_bytes)} archived`)),
      h("td", { class: "n" }, growth(file)),
      h("td", { class: "n" }, number(file.clients)))));
    const last = offset + data.files.length;
    refill(note, { ...data, files: data.files.length, q }, data.count === 0 ? (q ? "No file has this in its path." : "There are no files yet: one appears when the first client opens it.")
      : `${data.files.length < data.count ? `${number(offset + 1)} to ${number(last)} of ` : ""}${counted(data.count, "file")}, ${bytes(data.log_bytes)} of log${data.cut ? `; the first ${number(data.looked)} were looked at` : ""}`,
    offset > 0 && [" · ", h("a", { href: context.here({ offset: Math.max(0, offset - shownFiles) || "" }) }, "earlier ones")],
    last < data.count && [" · ", h("a", { href: context.here({ offset: last }) }, "further ones")]);
  };
  const search = h("input", {
    type: "search", value: context.get("q"), placeholder: "Search paths", "aria-label": "Search paths", spellcheck: "false",
    oninput: debounced(async () => { context.replace({ q: search.value, offset: "" }); await look(search.value); }, 120),
  });
  await look(context.get("q"));
  repeat(3000, context.signal, () => look(search.value));
  const heading = (name, label, isNumber) => {
    const isSorted = sort === name, isDescending = order === "desc";
    const next = isSorted ? (isDescending ? "" : "desc") : isNumber ? "desc" : "";
    return h("th", { class: isNumber ? "n" : null, "aria-sort": isSorted ? (isDescending ? "descending" : "ascending") : "none" },
      h("a", { class: "order", href: context.here({ sort: name === "path" ? "" : name, order: next, offset: "" }) }, label,
        h("span", { class: "arrow", "aria-hidden": "true" }, isSorted ? (isDescending ? " ↓" : " ↑") : "")));
  };
  return h("section", {}, h("div", { class: "tools" }, h("h1", {}, "Files"), search), note,
    h("div", { class: "scroll" }, h("table", { class: "plain files" },
      h("thead", {}, h("tr", {}, heading("path", "Path"), heading("version", "Versions", true), heading("size", "Log", true), h("th", { class: "n", title: "Since this page was opened" }, "Growth"), heading("clients", "Clients", true))),
      body)));
}

export function debounced(work, milliseconds) {
  let timer;
  return () => { clearTimeout(timer); timer = setTimeout(work, milliseconds); };
}

/** What stands above every page of a file: its path, and the ways to its other pages. */
export function frame(context, here, ...content) {
  const path = context.get("path"), at = context.get("at");
  const tabs = [["/file", "File"], ["/objects", "Objects"], ["/history", "History"], ["/edits", "Edits"], ["/diff", "Compare"], ["/clients", "Clients"]];
  return h("section", { class: "file" },
    h("nav", { class: "crumbs", "aria-label": "Place" }, h("a", { href: "/files" }, "Files"), h("span", { "aria-hidden": "true" }, "/"),
      h("h1", {}, writtenPath(path))),
    h("nav", { class: "tabs", "aria-label": "Pages of the file" }, tabs.map(([page, name]) =>
      h("a", { href: link(page, { path, at: page === "/objects" || page === "/file" ? at : "" }), "aria-current": page === here ? "page" : null }, name))),
    viewBar(context, here === "/file" || here === "/objects"),
    ...content);
}

export async function page(context) {
  const path = context.get("path"), at = context.get("at");
  context.title(readable(path));
  const [data, seen] = await Promise.all([get("/file", { path, at }, context.signal), viewer(context)]), { file, schema } = data;
  const figures = h("dl", { class: "facts" });
  const draw = (now) => refill(figures, [now.version, now.log_bytes, now.base_version, now.clients], [
    ["Version", number(now.version)], ["Log", `${bytes(now.log_bytes)}, versions ${number(now.base_version + 1)} to ${number(now.version)}`],
    ["State", bytes(file.state_bytes)], ["Archive", file.archived_bytes > 0 ? bytes(file.archived_bytes) : "none"],
    ["Bootstrap generation", file.generation_version > 0 ? `of version ${number(file.generation_version)}` : "none yet"],
    ["Clients", h("a", { href: link("/clients", { path }) }, number(now.clients))],
    ["Kept by", file.pinned_by ? h("a", { href: link("/clients", { path }) }, `client ${file.pinned_by.client}`,
      file.pinned_by.user && [" of ", written(file.pinned_by.user)], `: ${bytes(file.pinned_by.bytes)} above version ${number(file.pinned_by.version)}`) : "nobody"],
  ].map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
  draw(file);
  repeat(1000, context.signal, async () => draw(await get("/head", { path }, context.signal)));
  const tops = schema.classes.filter((each) => each.kind !== "embedded"), embedded = schema.classes.filter((each) => each.kind === "embedded");
  return frame(context, "/file",
    file.full && h("div", { class: "warning" }, h("b", {}, "The log is full. "), "Changes of clients wait: expire the client that keeps most of it, or raise partition-bytes."),
    figures,
    seen && [h("h2", {}, "What the user may do"), reasons(seen)],
    h("h2", {}, "Schema"), timeTravel(context, schema.version, file), diagram(schema.classes, path, at),
    schema.classes.length === 0 && h("p", { class: "muted" }, at ? `There were no classes at version ${number(Number(at))}.` : "No client has written anything yet."),
    h("div", { class: "schema" }, [...tops, ...embedded].map((each) => card(each, path, at))));
}

function card(schema, path, at) {
  const property = (each, isKey) => h("tr", {},
    h("th", { scope: "row" }, written(each.name), isKey && h("span", { class: "badge" }, "key")),
    h("td", {}, each.target ? h("a", { href: `#class-${encodeURIComponent(each.target)}` }, written(typeText(each))) : typeText(each)));
  return h("article", { class: "card", id: `class-${encodeURIComponent(schema.name)}` },
    h("h3", {}, schema.kind === "embedded" ? written(schema.name) : h("a", { href: link("/objects", { path, class: schema.name, at }) }, written(schema.name)),
      schema.kind !== "top-level" && h("span", { class: "badge" }, schema.kind)),
    h("table", {}, h("caption", { class: "hidden" }, `Properties of ${schema.name}`), h("tbody", {},
      schema.key && property(schema.key, true), schema.properties.map((each) => property(each, false)))));
}

