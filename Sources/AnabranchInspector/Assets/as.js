// A file as one user sees it: who is looking, and which role or rule decides.

import { button, counted, h, link, number, written } from "./dom.js";
import { get } from "./server.js";

/** The permissions of the user as whom a page is looked at; nothing for the full view. */
export async function viewer(context, more = {}) {
  if (!context.get("as")) return null;
  const query = Object.fromEntries(["path", "at", "as", "client"].map((name) => [name, context.get(name)]));
  context.viewer = await get("/as", { ...query, ...more }, context.signal);
  return context.viewer;
}

/** Says above every page of a file whose view it is, and leads to others. */
export function viewBar(context, isFiltered) {
  const user = context.get("as"), data = context.viewer, own = { client: "" };
  if (!user) {
    return h("div", { class: "viewer" }, h("b", {}, "Full view"), h("span", { class: "muted" }, "all that is there, as the operator sees it"), h("span", { class: "gap" }), chooser(context, "", isFiltered));
  }
  if (!isFiltered) {
    return h("div", { class: "viewer" }, h("b", {}, "Full view"), h("span", { class: "muted" }, "this page has no view of one user"), h("span", { class: "gap" }),
      h("a", { href: link("/objects", { path: context.get("path"), as: user }) }, "Objects as ", written(user)), h("a", { href: context.here({ as: "", client: "" }) }, "Leave that view"));
  }
  const chosen = data?.client ?? null;
  return h("div", { class: "viewer as" }, h("b", {}, "As ", h("a", { href: link("/user", { user }) }, written(user))),
    data && h("span", {}, access(data)),
    data?.clients.length > 0 && h("span", {}, "In the view of ", chosen === null ? h("b", {}, "everything readable") : h("a", { href: context.here(own) }, "everything readable"),
      data.clients.map((each) => [" · ", each.client === chosen ? h("b", {}, `client ${each.client}`) : h("a", { href: context.here({ client: each.client }) }, `client ${each.client}`)]), data.clients_cut && " …"),
    h("span", { class: "gap" }), h("a", { href: context.here({ as: "", client: "" }) }, "Full view"),
    data?.notes.map((note) => h("p", { class: "note" }, note)));
}

function chooser(context, user, isFiltered) {
  const field = h("input", { type: "text", name: "as", value: user, "aria-label": "Ident of a user", placeholder: "ident of a user", spellcheck: "false", autocomplete: "off" });
  return h("form", {
    class: "chooser", onsubmit: (event) => {
      event.preventDefault();
      const as = field.value.trim();
      if (as) context.go(isFiltered ? context.here({ as }) : link("/objects", { path: context.get("path"), as }));
    },
  }, field, h("button", { type: "submit" }, "See as this user"));
}

const allowed = { none: "may not read it", read: "may read it", write: "may read and write it" };

/** What the user may do with a file, in a few words. */
function access(data) {
  if (data.reason) return ["sees nothing: ", data.reason];
  if (data.permissions) {
    const kinds = [...new Set(data.permissions.map((each) => each.permission))];
    return kinds.length === 1 ? allowed[kinds[0]] : "may do what the log-in decides";
  }
  return data.no_rules ? "may read and write all objects: the app has no rules" : `sees what ${data.client === null ? "the roles let the user read" : `client ${data.client} asks for, of what the roles let it read`}`;
}

const conditions = { read: "read", write: "change", insert: "create", delete: "delete" };

/** The rule of a partition that has decided, or the role of a class, with the expressions that did. */
export function reasons(data, className = null) {
  if (data.reason) return h("div", { class: "reasons" }, h("p", {}, "Nothing is seen: ", data.reason, "."));
  if (data.permissions) {
    return h("div", { class: "reasons" }, data.permissions.map((each) => h("div", {}, h("p", {}, each.provider && [h("small", {}, `logged in by ${each.provider}: `)], h("b", { class: each.permission === "none" ? "lost" : "kept" }, each.permission),
      `: the user ${allowed[each.permission]}; ${each.reason}.`), each.text && h("pre", {}, written(each.text.trim())))));
  }
  if (data.no_rules) return h("div", { class: "reasons" }, h("p", {}, "Everything is seen: the app has no rules."));
  return h("div", { class: "reasons" }, data.classes.filter((each) => className === null || each.class === className).map((each) => role(each, className === null)));
}

function role(each, isNamed) {
  const passed = each.tried.filter((tried) => !tried.applies), applied = each.tried.find((tried) => tried.applies);
  return h("div", { class: "role" },
    h("p", {}, isNamed && [h("b", {}, written(each.class)), ": "],
      applied ? ["role ", h("b", {}, written(applied.name)), " applies", each.default_rule ? ", by the default rule" : "", passed.length > 0 && [`; before it ${passed.length === 1 ? "this one does" : "these do"} not: `, names(passed)], "."]
        : each.tried.length === 0 ? h("span", { class: "lost" }, "no rule names this class: nothing is allowed.") : [h("span", { class: "lost" }, "no role applies: nothing is allowed"), "; tried: ", names(passed), "."]),
    each.problem && h("p", { class: "lost" }, "Nothing is allowed: ", written(each.problem)),
    applied && h("dl", { class: "facts" }, Object.entries(conditions).map(([name, word]) => [h("dt", {}, word), h("dd", {}, condition(each.permissions[name]))])),
    each.tried.length > 0 && h("details", {}, h("summary", {}, counted(each.tried.length, "role"), " as the app has ", each.tried.length === 1 ? "it" : "them"),
      each.tried.map((tried) => [h("p", {}, written(tried.name), tried.applies ? " applies: " : " does not apply: ", h("code", {}, written(JSON.stringify(tried.source.apply_when ?? tried.source.applyWhen)))), h("pre", {}, written(JSON.stringify(tried.source, null, 1)))])));
}

const names = (tried) => tried.map((each, index) => [index > 0 && ", ", h("b", {}, written(each.name))]);

const condition = (value) => (value === true ? "all objects" : value === false ? h("span", { class: "lost" }, "none") : h("code", {}, written(JSON.stringify(value))));

/** Why the user sees an object, or does not. */
export function verdict(data, className) {
  const { object } = data, role = data.classes?.find((each) => each.class === className);
  const asked = (client) => data.clients.find((each) => each.client === client)?.queries[className];
  if (!object) return "";
  if (!object.exists) return h("p", { class: "muted" }, "There is no such object: nobody sees it.");
  return h("div", { class: "verdict" },
    h("p", {}, h("b", { class: object.readable ? "kept" : "lost" }, object.readable ? "The user may read this object" : "The user may not read this object"),
      role && !data.no_rules && [": ", role.role === null ? "no role applies" : ["role ", h("b", {}, written(role.role)), object.readable ? " lets it be read by " : " refuses it by ", condition(role.permissions.read)]], "."),
    data.classes && (object.clients.length === 0 ? h("p", { class: "muted" }, "The user has no client in this file.")
      : h("ul", {}, object.clients.map((each) => h("li", {}, `Client ${number(each.client)} `, each.has ? h("b", { class: "kept" }, "has it") : h("b", { class: "lost" }, "does not have it"),
        asked(each.client) === undefined ? ": it asks for no objects of the class." : [each.has ? ": it asks for " : object.readable ? ": it is not among " : ": the role refuses it; it asks for ", h("code", {}, written(asked(each.client))), "."])))));
}

/** Leads from a row of a table to the view of its user. */
export const asUser = (path, user, client = "") => h("a", { class: "quiet", href: link("/objects", { path, as: user, client }) }, "see as");
