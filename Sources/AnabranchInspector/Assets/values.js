// Values of a state, in the form of an export (Spec/Export.md), as people read them.

import { bytes, h, link, moment, number, written } from "./dom.js";

function bits(hexadecimal, size) {
  const view = new DataView(new ArrayBuffer(8));
  view.setBigUint64(0, BigInt(`0x${hexadecimal}`));
  return size === 4 ? view.getFloat32(4) : view.getFloat64(0);
}

function plain(value) {
  const decimal = String(value);
  return Object.is(value, -0) ? "-0" : decimal;
}

/** The kind of a value, and its text. */
export function read(value) {
  if (value === null || value === undefined) return { kind: "null", text: "null" };
  if (typeof value === "string") return { kind: "string", text: value };
  if (typeof value === "boolean") return { kind: "bool", text: String(value) };
  if (typeof value !== "object") return { kind: "other", text: String(value) };
  if ("cut" in value) {
    const start = read(value.cut);
    return { kind: start.kind, text: `${start.text}…`, note: bytes(value.bytes) };
  }
  if ("int" in value) return { kind: "number", text: value.int };
  if ("double" in value) return { kind: "number", text: plain(bits(value.double, 8)) };
  if ("float" in value) return { kind: "number", text: plain(bits(value.float, 4)) };
  if ("dec" in value) return { kind: "number", text: value.dec };
  if ("ts" in value) return { kind: "date", text: timestamp(value.ts) };
  if ("oid" in value) return { kind: "id", text: value.oid };
  if ("uuid" in value) return { kind: "id", text: value.uuid };
  if ("gk" in value) return { kind: "id", text: value.gk };
  if ("bin" in value) return { kind: "binary", text: value.bin || "empty" };
  if ("bytes" in value) return { kind: "binary", text: value.bytes };
  if ("type" in value) return { kind: "other", text: `a new ${value.type}` };
  if ("link" in value) return { kind: "link", text: `${keyText(value.link[0])} ${keyText(value.link[1])}`, link: value.link };
  return { kind: "other", text: JSON.stringify(value) };
}

function timestamp([seconds, nanoseconds]) {
  const time = Number(seconds) * 1000 + Math.floor(nanoseconds / 1e6);
  return Math.abs(time) <= 8.64e15 ? moment(time) : `${seconds} s since 1970`;
}

/** The key of an object in words. */
export const keyText = (key) => read(key).text;

/** The key of an object as it stands in an address. */
export const keyQuery = (key) => JSON.stringify(key);

export const objectLink = (path, className, key, more = {}) =>
  link("/object", { path, class: className, key: keyQuery(key), ...more });

/** A value in one line. */
export function brief(value, context) {
  if (value !== null && typeof value === "object") {
    if ("list" in value) return collection(value.list.map((each) => brief(each, context)), value.count, "[", "]");
    if ("set" in value) return collection(value.set.map((each) => brief(each, context)), value.count, "{", "}");
    if ("dict" in value) {
      const entries = Object.entries(value.dict).map(([key, each]) => [written(key), ": ", brief(each, context)]);
      return collection(entries, value.count, "{", "}");
    }
    if ("object" in value) {
      const fields = Object.entries(value.object ?? {}).map(([key, each]) => [written(key), ": ", brief(each, context)]);
      return h("span", { class: "v object" }, h("span", { class: "of" }, written(value.class)), " ", join(fields), value.count > fields.length && " …");
    }
  }
  const { kind, text, note, link: target } = read(value);
  if (target) {
    return h("a", { class: "v link", href: objectLink(context.path, keyText(target[0]), target[1], { at: context.at }) },
      written(text));
  }
  return h("span", { class: `v ${kind}` }, kind === "string" ? written(text) : text, note && h("small", {}, ` ${note}`));
}

const join = (parts) => parts.flatMap((part, index) => (index > 0 ? [", ", part] : [part]));

/** A list, a set or a dictionary in one line, of which `parts` may be the beginning. */
export function collection(parts, count, open, close) {
  const more = count > parts.length ? `${parts.length > 0 ? ", " : ""}… ` : "";
  return h("span", { class: "v list" }, h("span", { class: "count" }, number(count)), " ", open, join(parts), more, close);
}

/** A value with everything in it. */
export function whole(value, context) {
  if (value !== null && typeof value === "object") {
    if ("list" in value || "set" in value) {
      const elements = value.list ?? value.set, word = "list" in value ? "list" : "set";
      return nested(`${word} of ${number(value.count)}`,
        elements.map((each, index) => [word === "list" ? String(index) : "·", whole(each, context)]), value.count);
    }
    if ("dict" in value) {
      return nested(`dictionary of ${number(value.count)}`,
        Object.entries(value.dict).map(([key, each]) => [written(key), whole(each, context)]), value.count);
    }
    if ("object" in value) {
      const fields = Object.entries(value.object ?? {});
      return nested(written(value.class), fields.map(([key, each]) => [written(key), whole(each, context)]), value.count);
    }
  }
  return brief(value, context);
}

function nested(title, rows, count) {
  if (rows.length === 0) return h("span", { class: "v null" }, title);
  const more = count > rows.length && h("p", { class: "muted" }, `and ${number(count - rows.length)} more`);
  return h("details", { class: "nested", open: rows.length <= 20 },
    h("summary", {}, title),
    h("dl", {}, rows.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])), more);
}

/** A type of a property in words. */
export function typeText(property) {
  const base = property.target ?? property.type, plainType = `${base}${property.nullable ? "?" : ""}`;
  return property.collection ? `${property.collection} of ${plainType}` : plainType;
}
