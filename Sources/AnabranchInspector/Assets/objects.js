// The objects of a class as a table.

import { button, fill, h, link, number, readable, written } from "./dom.js";
import { get, repeat, Refusal } from "./server.js";
import { frame } from "./files.js";
import { brief, keyText, objectLink, read, typeText } from "./values.js";
import { timeTravel } from "./history.js";
import { reasons, viewer } from "./as.js";
import "./table.js";

const numeric = new Set(["int", "float", "double", "decimal"]);
/** A table of so many objects is shown anew by itself when the file changes. */
const renewedMax = 2000;

export async function page(context) {
  const path = context.get("path"), at = context.get("at");
  context.title(readable(path));
  const { schema, file } = await get("/file", { path, at }, context.signal);
  const classes = schema.classes.filter((each) => each.kind !== "embedded");
  const wanted = context.get("class") || classes[0]?.name;
  const seen = await viewer(context, { class: wanted ?? "" });
  if (!wanted) return frame(context, "/objects", timeTravel(context, schema.version, file), h("p", { class: "muted" }, "There are no classes yet."));
  const current = classes.find((each) => each.name === wanted) ?? { name: wanted, properties: [], key: null };
  const table = document.createElement("virtual-table"), note = h("p", { class: "muted count", role: "status" });
  const news = h("span", { class: "news" }), error = h("p", { class: "error", id: "filter-error", role: "alert" });
  const field = h("input", {
    type: "search", id: "filter", value: context.get("filter"), spellcheck: "false", "aria-describedby": "filter-error",
    placeholder: "Filter, as  age >= 18 AND name BEGINSWITH[c] 'jo'",
  });
  const state = { filter: context.get("filter"), list: "", sort: context.get("sort"), isDescending: context.get("order") === "desc" };
  const hidden = new Set(context.get("hide").split(",").filter(Boolean));

  table.label = `Objects of ${wanted}`;
  table.order = state;
  table.open = (row) => context.go(objectLink(path, wanted, row.key, { at }));
  table.onorder = (sort) => {
    const isSame = state.sort === sort;
    state.isDescending = isSame ? !state.isDescending : false;
    state.sort = sort;
    context.replace({ sort, order: state.isDescending ? "desc" : "" });
    renew();
  };
  table.onprogress = (count, complete) => fill(note, complete ? `${number(count)} ${count === 1 ? "object" : "objects"}` : `${number(count)} found so far …`);
  table.load = async (offset, limit) => {
    const answer = await get("/objects", {
      path, at, class: wanted, filter: state.filter, sort: state.sort, order: state.isDescending ? "desc" : "",
      offset: offset || "", limit, list: state.list,
    }, context.signal);
    state.list = answer.list;
    state.version ??= answer.version;
    return answer;
  };
  const columns = () => {
    const shown = current.properties.filter((each) => !hidden.has(each.name));
    table.columns = [
      { label: current.key?.name ?? "key", width: keyWidth(current.key), sort: "", class: "key", tip: current.key ? typeText(current.key) : "GlobalKey",
        cell: (row) => h("a", { href: objectLink(path, wanted, row.key, { at }) }, written(keyText(row.key))) },
      !seen && { label: h("span", { class: "hidden" }, "History"), width: 34, class: "act",
        cell: (row) => h("a", { href: `${objectLink(path, wanted, row.key)}#history`, "aria-label": `History of ${keyText(row.key)}`, title: "Who changed what when, and why" }, clock()) },
      ...shown.map((property) => {
        const index = current.properties.indexOf(property), isNumber = numeric.has(property.type) && !property.collection;
        return {
          label: written(property.name), width: propertyWidth(property), class: isNumber ? "n" : "", tip: typeText(property),
          sort: property.collection || property.type === "object" ? undefined : property.name,
          cell: (row) => (row.values ? brief(row.values[index], { path, at }) : h("span", { class: "v gone" }, "erased since")),
        };
      }),
    ].filter(Boolean);
  };
  const renew = async (options) => {
    state.list = "";
    state.version = undefined;
    fill(news);
    try {
      await table.start(options);
      error.textContent = "";
      field.removeAttribute("aria-invalid");
    } catch (refusal) {
      if (refusal.name === "AbortError") return;
      if (!(refusal instanceof Refusal)) throw refusal;
      showMistake(refusal);
    }
  };
  const showMistake = (refusal) => {
    field.setAttribute("aria-invalid", "true");
    if (refusal.offset === undefined) { error.textContent = refusal.message; return; }
    const bytesBefore = new TextEncoder().encode(state.filter).slice(0, refusal.offset);
    const before = new TextDecoder().decode(bytesBefore), rest = state.filter.slice(before.length);
    fill(error, refusal.message, h("code", { class: "place" }, before.slice(-40), h("mark", {}, rest.slice(0, 1) || "⌄"), rest.slice(1, 40)));
    field.setSelectionRange(before.length, before.length);
  };
  const filter = h("form", {
    class: "filter", role: "search", onsubmit: (event) => {
      event.preventDefault();
      state.filter = field.value.trim();
      context.replace({ filter: state.filter });
      renew();
    },
  }, h("label", { for: "filter", class: "hidden" }, "Filter"), field, h("button", { type: "submit" }, "Filter"));
  field.addEventListener("search", () => { if (field.value === "" && state.filter !== "") filter.requestSubmit(); });

  const chooser = menu("Columns", current.properties.map((property) => h("label", {}, h("input", {
    type: "checkbox", checked: !hidden.has(property.name), onchange: (event) => {
      if (event.target.checked) hidden.delete(property.name); else hidden.add(property.name);
      context.replace({ hide: [...hidden].join(",") });
      columns();
      table.start({ keepsPlace: true });
    },
  }), written(property.name), h("small", {}, typeText(property)))));
  const facetBox = h("div", { class: "facets" });
  const facets = menu("Facets", [h("label", {}, "Values of ", h("select", {
    "aria-label": "Property", onchange: (event) => showFacets(event.target.value),
  }, h("option", { value: "" }, "…"), current.properties.filter((each) => !each.collection && each.type !== "object")
    .map((each) => h("option", { value: each.name }, each.name)))), facetBox]);
  const showFacets = async (name) => {
    if (!name) return fill(facetBox);
    const answer = await get("/facets", { path, at, class: wanted, filter: state.filter, field: name }, context.signal);
    fill(facetBox, h("p", { class: "muted" }, `${number(answer.different)} different in ${answer.complete ? "" : "the first "}${number(answer.looked)} objects`),
      h("ol", {}, answer.facets.map((facet) => {
        const constant = predicate(name, facet.value);
        return h("li", {}, constant ? button(brief(facet.value, { path, at }), () => {
          field.value = state.filter ? `(${state.filter}) AND ${constant}` : constant;
          filter.requestSubmit();
        }, { class: "facet" }) : brief(facet.value, { path, at }), h("b", {}, number(facet.count)));
      })));
  };

  if (!at) {
    repeat(1000, context.signal, async () => {
      const head = await get("/head", { path }, context.signal);
      if (state.version === undefined || head.version === state.version) return;
      const count = Number(table.viewport.getAttribute("aria-rowcount"));
      if (count >= 0 && count <= renewedMax) await renew({ keepsPlace: true });
      else fill(news, button(`${number(head.version - state.version)} newer ${head.version - state.version === 1 ? "version" : "versions"}: show`, () => renew({ keepsPlace: true })));
    });
  }
  columns();
  const content = frame(context, "/objects", timeTravel(context, schema.version, file),
    h("div", { class: "sides" },
      h("nav", { class: "classes", "aria-label": "Classes" }, classes.map((each) =>
        h("a", { href: link("/objects", { path, at, class: each.name }), "aria-current": each.name === wanted ? "page" : null }, written(each.name)))),
      h("div", { class: "pane" }, seen && h("details", { class: "why" }, h("summary", {}, "What the user sees of ", written(wanted), ", and why"), reasons(seen, wanted)), h("div", { class: "tools" }, filter, chooser, facets), error,
        table, h("div", { class: "foot" }, note, news))));
  content.started = () => renew();
  return content;
}

const clock = () => h("svg", { viewBox: "0 0 16 16", width: 14, height: 14, class: "clock", "aria-hidden": "true" },
  h("circle", { cx: 8, cy: 8, r: 6 }), h("path", { d: "M8 4.5V8l2.5 1.5" }));

function menu(label, items) {
  const details = h("details", { class: "menu" }, h("summary", {}, label), h("div", { class: "sheet" }, items));
  details.addEventListener("keydown", (event) => { if (event.key === "Escape") { details.open = false; details.firstChild.focus(); } });
  details.addEventListener("focusout", (event) => { if (event.relatedTarget && !details.contains(event.relatedTarget)) details.open = false; });
  return details;
}

/** A condition of the query language for a value; nothing for those that cannot be written in it. */
function predicate(name, value) {
  if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) return "";
  if (value === null) return `${name} == NULL`;
  if (typeof value === "boolean") return `${name} == ${value}`;
  if (typeof value === "string") return /["'\\\u0000-\u001f]/.test(value) ? "" : `${name} == "${value}"`;
  const { kind, text } = read(value);
  if (kind === "number" && !("cut" in value)) return `${name} == ${text}`;
  if ("oid" in value) return `${name} == oid(${text})`;
  if ("uuid" in value) return `${name} == uuid(${text})`;
  return "";
}

const keyWidth = (key) => ({ int: 110, objectid: 250, uuid: 310 }[key?.type] ?? 190);

function propertyWidth(property) {
  if (property.collection) return 240;
  return { int: 110, bool: 80, float: 120, double: 130, decimal: 150, timestamp: 200, objectid: 220, uuid: 300, object: 280, link: 170 }[property.type] ?? 220;
}
