// One version explained, and the comparison of two.

import { button, changesetTime, confirm, counted, fill, h, isolated, link, moment, notify, number, readable, written } from "./dom.js";
import { get, post } from "./server.js";
import { frame } from "./files.js";
import { author, sentence } from "./history.js";
import { brief, collection, keyText, objectLink, read } from "./values.js";

const certainties = {
  exact: "Merging it again gives the bytes of the log: this is what happened.",
  "upload-forgotten": "What was uploaded is no longer kept: this is what entered the log.",
  approximate: "In flexible sync a client is merged with its view, which is not kept: this is what was uploaded, and whether the log has it.",
};
const columnsMax = 40;

export async function page(context) {
  const path = context.get("path"), wanted = context.get("version");
  context.title(`Version ${wanted} of ${readable(path)}`);
  const data = await get("/version", { path, version: wanted }, context.signal), { explanation } = data;
  const version = explanation.version, detail = h("div", { class: "detail", role: "status" });
  const neighbours = h("span", { class: "steps" },
    version > data.base_version + 1 && h("a", { href: link("/version", { path, version: version - 1 }), rel: "prev" }, `‹ ${number(version - 1)}`), " ",
    version < data.newest && h("a", { href: link("/version", { path, version: version + 1 }), rel: "next" }, `${number(version + 1)} ›`));
  const lostCount = explanation.instructions.filter((each) => each.logged === null && !each.refused).length;
  const refusedCount = explanation.instructions.filter((each) => each.refused).length;
  return frame(context, "/history",
    h("div", { class: "tools" }, h("h2", {}, `Version ${number(version)}`), author(explanation), h("span", { class: "muted" }, `${moment(changesetTime(explanation.timestamp))} UTC`), neighbours),
    h("p", {}, data.summary && sentence(data.summary, path), ". ",
      explanation.base !== undefined && [`Made on version ${number(explanation.base)}`, explanation.unseen > 0 ? `; it had not seen ${counted(explanation.unseen, "version")} of others. ` : "; it had seen everything. "],
      h("span", { class: "muted" }, explanation.client === 0 ? "The server made it: nothing was merged." : certainties[explanation.certainty])),
    h("p", { class: "tally" }, counted(explanation.instructions.length, "instruction"), ": ", h("b", { class: "kept" }, `${number(explanation.instructions.length - lostCount - refusedCount)} logged`),
      lostCount > 0 && [", ", h("b", { class: "lost" }, `${number(lostCount)} lost`)], refusedCount > 0 && [", ", h("b", { class: "refused" }, `${number(refusedCount)} refused`)], " ",
      h("a", { class: "quiet", href: link("/diff", { path, from: Math.max(0, version - 1), to: version }) }, "what it changed"), " ",
      h("a", { class: "quiet", href: link("/objects", { path, at: version }) }, "the objects then")),
    explanation.effects.length > 0 && grid(explanation, detail), detail,
    lost(context, data), instructions(explanation), decisions(explanation, path));
}

/** Rows are instructions of the log, columns those of the upload; a cell is the rule that decided between the two. */
function grid(explanation, detail) {
  const rows = new Map(), columns = new Map();
  for (const effect of explanation.effects) {
    const rowName = `${effect.by.version} ${JSON.stringify(effect.other.before)}`, columnName = effect.instruction === null ? JSON.stringify(effect.own.before) : effect.instruction;
    if (!rows.has(rowName)) rows.set(rowName, { by: effect.by, instruction: effect.other.before, cells: new Map() });
    if (!columns.has(columnName)) columns.set(columnName, effect.own.before);
    const cells = rows.get(rowName).cells;
    cells.set(columnName, [...(cells.get(columnName) ?? []), effect]);
  }
  const names = [...columns.keys()].sort((left, right) => Number(left) - Number(right)), shown = names.slice(0, columnsMax);
  const show = (effect, cell) => {
    cell.closest("table").querySelectorAll("[aria-pressed=true]").forEach((each) => each.setAttribute("aria-pressed", "false"));
    cell.setAttribute("aria-pressed", "true");
    fill(detail, h("h3", {}, h("span", { class: "badge rule" }, effect.rule), " ", effect.sentence),
      h("div", { class: "pair" }, side("This version's", effect.own), side(["Of version ", String(effect.by.version), ", ", author(effect.by)], effect.other)));
  };
  const first = () => detail.childElementCount === 0;
  const table = h("table", { class: "grid" }, h("caption", { class: "hidden" }, "The merge: what the log had, and what came in"),
    h("thead", {}, h("tr", {}, h("td", {}, h("small", {}, "log ↓  upload →")), shown.map((name) => h("th", { scope: "col" }, written(words(columns.get(name))))))),
    h("tbody", {}, [...rows.values()].map((row) => h("tr", {},
      h("th", { scope: "row" }, h("small", {}, `version ${row.by.version} `), written(words(row.instruction))),
      shown.map((name) => h("td", {}, (row.cells.get(name) ?? []).map((effect) => {
        const outcome = effect.own.after === null ? "lost" : effect.other.after === null ? "won" : "moved";
        const cell = h("button", {
          type: "button", class: `rule ${outcome}`, "aria-pressed": "false", onclick: () => show(effect, cell),
          "aria-label": `${effect.rule}: ${outcome === "lost" ? "this version's is lost" : outcome === "won" ? "the other one is overruled" : "one is changed"}`,
        }, effect.rule);
        if (first()) queueMicrotask(() => first() && show(effect, cell));
        return cell;
      })))))));
  return h("div", {}, h("h3", {}, "The merge"), h("p", { class: "legend muted" }, h("span", { class: "swatch lost" }), "this version's is lost ", h("span", { class: "swatch won" }),
    "the other one is overruled ", h("span", { class: "swatch moved" }), "one is changed so that both hold"),
  h("div", { class: "scroll" }, table), names.length > shown.length && h("p", { class: "muted" }, `and ${number(names.length - shown.length)} more columns, in the JSON of this page`));
}

function side(title, { before, after, affected }) {
  return h("div", { class: "side" }, h("h4", {}, title), h("p", {}, h("code", {}, written(words(before)))),
    affected && (after === null ? h("p", { class: "lost" }, "discarded") : h("p", {}, "became ", h("code", {}, written(words(after))))), !affected && h("p", { class: "muted" }, "stays as it is"));
}

/** An instruction in words, from its JSON. */
export function words(instruction) {
  const text = (name) => isolated(read(name).text), parts = [text(instruction.class)];
  if ("key" in instruction) parts.push(`[${text(instruction.key)}]`);
  if ("field" in instruction) parts.push(`.${text(instruction.field)}`);
  for (const step of instruction.path ?? []) parts.push(typeof step === "number" ? `[${step}]` : `["${text(step)}"]`);
  if ("value" in instruction) parts.push(` = ${text(instruction.value)}`);
  if ("amount" in instruction) parts.push(` + ${instruction.amount.int}`);
  if ("to" in instruction) parts.push(` to [${instruction.to}]`);
  if ("type" in instruction) parts.push(`: ${instruction.type}${instruction.nullable ? "?" : ""}${instruction.collection && instruction.collection !== "single" ? ` ${instruction.collection}` : ""}`);
  return `${instruction.instruction} ${parts.join("")}`;
}

function lost(context, data) {
  if (data.lost.length === 0) return "";
  const restore = async (value) => {
    const agreed = await confirm("Write the value again?", [
      `${value.class} ${keyText(value.key)} gets the value that version ${value.author} had written to ${value.field}.`,
      "The server makes a new version, which wins over what is there now and which all clients download."], "Write it");
    if (!agreed) return;
    try {
      const answer = await post("/restore", { path: data.path, version: data.explanation.version, number: value.number });
      notify(answer.refused_count > 0 ? `Not written: ${answer.refused[0].reason}` : answer.written > 0 ? `${value.class} ${keyText(value.key)} has the value again.` : "It has the value already.", answer.refused_count > 0);
    } catch (refusal) { notify(refusal.message, true); }
  };
  return h("div", {}, h("h3", {}, "Lost values"), h("table", { class: "fields lostvalues" }, h("tbody", {}, data.lost.map((value) => h("tr", {},
    h("th", { scope: "row" }, h("a", { href: objectLink(data.path, value.class, value.key) }, written(`${value.class} ${keyText(value.key)}`)), ".", written(value.field)),
    h("td", {}, brief(value.value, { path: data.path })), h("td", { class: "muted" }, `of version ${value.author}, lost by ${value.rule} to version ${value.winner}`),
    h("td", {}, button("Restore", () => restore(value), { disabled: !context.session.writes, title: context.session.writes ? null : "The configuration lets the inspector only look." })))))));
}

function instructions(explanation) {
  return h("div", {}, h("h3", {}, "Instructions"), h("ol", { class: "instructions" }, explanation.instructions.slice(0, 500).map((each) => {
    const uploaded = words(each.uploaded), logged = each.logged && words(each.logged);
    const state = each.refused ? "refused" : logged === null ? "lost" : logged === uploaded ? "kept" : "changed";
    return h("li", { class: state }, h("span", { class: "outcome" }, state), h("code", {}, written(uploaded)), state === "changed" && [" → ", h("code", {}, written(logged))]);
  })), explanation.instructions.length > 500 && h("p", { class: "muted" }, `and ${number(explanation.instructions.length - 500)} more, in the JSON of this page`));
}

/** Why objects were refused, or have left what the client sees. */
function decisions(explanation, path) {
  if (explanation.decisions.length === 0) return "";
  return h("div", {}, h("h3", {}, "Refused, or out of sight"), h("ul", { class: "instructions" }, explanation.decisions.map((each) =>
    h("li", { class: each.refused ? "refused" : "changed" }, h("span", { class: "outcome" }, each.refused ? "refused" : "left"),
      h("a", { href: objectLink(path, each.class, each.key) }, written(`${each.class} ${keyText(each.key)}`)), `: ${each.sentence} `,
      each.text !== null && h("code", {}, written(each.text))))));
}

export async function diff(context) {
  const path = context.get("path"), head = await get("/head", { path }, context.signal);
  const to = context.get("to"), from = context.get("from") || String(Math.max(0, Number(to || head.version) - 1));
  context.title(`Versions of ${readable(path)} compared`);
  const field = (name, label, value) => h("label", {}, label, " ", h("input", { type: "number", name, min: 0, max: head.version, value, required: true }));
  const form = h("form", {
    class: "tools", onsubmit: (event) => {
      event.preventDefault();
      const values = new FormData(form);
      context.go(link("/diff", { path, from: values.get("from"), to: Number(values.get("to")) === head.version ? "" : values.get("to") }));
    },
  }, field("from", "Version", from), field("to", "and", to || head.version), h("button", { type: "submit" }, "Compare"));
  if (head.version === 0) return frame(context, "/diff", h("p", { class: "muted" }, "Nothing has been written yet."));
  const data = await get("/diff", { path, from, to }, context.signal), signs = { created: "+", erased: "−", changed: "~" };
  const value = (each) => (each === null ? h("span", { class: "v null" }, "nothing") : "cut" in each ? h("span", { class: "v" }, written(`${each.cut}…`)) : raw(each.value, path));
  return frame(context, "/diff", form, h("p", { class: "muted", role: "status" }, data.objects.length === 0 ? "The two are the same." : `${data.cut ? "The first " : ""}${counted(data.objects.length, "object")} differ${data.objects.length === 1 ? "s" : ""}.`),
    data.objects.map((object) => h("article", { class: `difference ${object.change}` }, h("h3", {}, h("span", { class: "sign", "aria-hidden": "true" }, signs[object.change]),
      h("a", { href: objectLink(path, object.class, object.key, { at: object.change === "erased" ? from : to }) }, written(`${object.class} ${keyText(object.key)}`)), h("small", {}, ` ${object.change}`)),
    h("table", { class: "fields" }, h("tbody", {}, object.fields.map((each) => h("tr", {}, h("th", { scope: "row" }, written(each.name)),
      object.change === "changed" ? [h("td", { class: "before" }, value(each.before)), h("td", { class: "after" }, value(each.after))]
        : h("td", { class: object.change === "created" ? "after" : "before" }, value(object.change === "created" ? each.after : each.before)))))))));
}

/** A value of an export: only what is a single value or a list for certain is read. */
function raw(value, path) {
  if (value === null || typeof value !== "object") return brief(value, { path });
  const [name, ...others] = Object.keys(value), part = others.length === 0 ? value[name] : undefined;
  // No property of an embedded object has an array: this is not an object with a property of that name.
  if (Array.isArray(part) && ["list", "set"].includes(name)) return collection(part.map((each) => raw(each, path)), part.length, ...(name === "list" ? "[]" : "{}"));
  const isSingle = (Array.isArray(part) || typeof part === "string") && ["int", "double", "float", "dec", "ts", "oid", "uuid", "bin", "bytes", "link"].includes(name);
  return isSingle ? brief(value, { path }) : h("span", { class: "v" }, written(JSON.stringify(value, null, 1)));
}
