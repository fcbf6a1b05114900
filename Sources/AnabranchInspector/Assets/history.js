// The history of a file, and the way back to its earlier states.

import { button, bytes, changesetTime, counted, fill, h, link, moment, notify, number, readable, refill, timeElement, written } from "./dom.js";
import { get, repeat } from "./server.js";
import { frame } from "./files.js";
import { keyText, objectLink } from "./values.js";
import { hue, river, unseen, wholeRiver } from "./river.js";

const pageLength = 100;

export async function page(context) {
  const path = context.get("path"), before = context.get("before");
  context.title(`History of ${readable(path)}`);
  const [first, picture] = await Promise.all([get("/history", { path, before, limit: pageLength }, context.signal), get("/river", { path }, context.signal)]);
  let data = first;
  const rows = h("div", { class: "stream" }), whole = h("div"), foot = h("p", { class: "foot" }), note = h("p", { class: "muted", role: "status" });
  const draw = () => {
    fill(note, data.version === 0 ? "Nothing has been written yet." : `Versions ${number(data.base_version + 1)} to ${number(data.version)}${data.base_version > 0 ? "; what is older has been trimmed" : ""}. An arm leaves the river at the version that its client had seen.`);
    const list = h("ol", {}, data.versions.map((version, index) => row(version, data.versions[index - 1], path)));
    fill(rows, river(data.versions, (at) => list.querySelectorAll("li").forEach((each, index) => each.classList.toggle("pointed", String(index) === at))), list);
    fill(foot, before && [h("a", { href: context.here({ before: "" }) }, "The newest"), " · "],
      data.next !== null && h("a", { href: context.here({ before: data.next }) }, `Older: version ${number(data.next)} and before`));
  };
  draw();
  if (data.version - data.base_version > pageLength) {
    fill(whole, wholeRiver(picture, data.versions, (version) => context.go(context.here({ before: version === data.version ? "" : version }))));
  }
  if (!before) {
    repeat(1000, context.signal, async () => {
      const head = await get("/head", { path }, context.signal);
      if (head.version === data.version) return;
      data = await get("/history", { path, limit: pageLength }, context.signal);
      draw();
    });
  }
  return frame(context, "/history", note, whole, rows, foot);
}

function row(version, previous, path) {
  const time = changesetTime(version.timestamp), missed = unseen(version);
  return h("li", {}, h("a", { class: "number", href: link("/version", { path, version: version.version }) }, number(version.version)),
    h("div", { class: "what" }, h("p", {}, sentence(version, path)),
      h("p", { class: "by" }, author(version), " · ", timeElement(time), " · ", bytes(version.bytes),
        missed > 0 && [" · ", h("span", { class: "missed" }, `had not seen ${number(missed)} before it`)])),
    version.merged && h("a", { class: "badge merge", href: link("/version", { path, version: version.version }) }, "merged"));
}

const editsLength = 50, editsMax = 500;

/** The edits that people recognise: by one author, on objects that they have in common, without a long pause. */
export async function edits(context) {
  const path = context.get("path"), before = context.get("before"), pause = context.get("pause");
  const limit = Number(context.get("limit")) || editsLength;
  context.title(`Edits of ${readable(path)}`);
  const list = h("ol", { class: "changes" }), foot = h("p", { class: "foot" }), note = h("p", { class: "muted", role: "status" });
  let shown;
  const look = async () => {
    const data = await get("/edits", { path, before, pause, limit }, context.signal), users = new Map(data.users.map((each) => [each.client, each.user]));
    shown = data.version;
    refill(note, [data.edits.length, data.version], data.edits.length === 0 ? "Nothing has been written yet." : `${counted(data.edits.length, "edit")}${before ? ` up to version ${number(Number(before))}` : ""}: what one author changed on the same objects without a long pause.`);
    refill(list, data.edits, () => data.edits.map((edit) => editRow(edit, users, path)));
    refill(foot, [data.more, data.cut_at], before && [h("a", { href: context.here({ before: "", limit: "" }) }, "The newest"), " "],
      data.more && (data.cut_at === null && limit < editsMax ? h("a", { href: context.here({ limit: Math.min(editsMax, limit * 2) }) }, "More")
        : h("a", { href: context.here({ before: data.cut_at ?? data.edits.at(-1).first - 1, limit: "" }) }, "Older; edits that reach over this place are shown in two parts")));
  };
  await look();
  if (!before) repeat(1000, context.signal, async () => { if ((await get("/head", { path }, context.signal)).version !== shown) await look(); });
  const pauses = h("select", { id: "pause", onchange: () => context.go(context.here({ pause: pauses.value === "300" ? "" : pauses.value })) },
    [["30", "30 seconds"], ["300", "5 minutes"], ["3600", "an hour"], ["86400", "a day"]].map(([value, name]) =>
      h("option", { value, selected: value === (pause || "300") }, name)));
  return frame(context, "/edits", h("div", { class: "tools" }, note, h("span", { class: "gap" }), h("label", { for: "pause" }, "A pause ends an edit after"), pauses), list, foot);
}

function editRow(edit, users, path) {
  const rest = edit.object_count - edit.objects.length, versions = edit.versions === 1 ? `Version ${number(edit.last)}` : `Versions ${number(edit.first)} to ${number(edit.last)}`;
  const what = ({ inserted, deleted, fields, field_count: count }) => [inserted && deleted ? " created and deleted" : deleted ? " deleted" : inserted ? " created" : "",
    !deleted && fields.length > 0 && [": ", fields.map((name, index) => [index > 0 && ", ", written(name)]), count > fields.length && " …"]];
  return h("li", {},
    h("p", {}, h("a", { href: link("/history", { path, before: edit.last }) }, versions), " ", author({ client: edit.client, user: users.get(edit.client) }), " ",
      h("small", {}, timeElement(changesetTime(edit.last_timestamp))), " ",
      h("a", { class: "quiet", href: link("/diff", { path, from: edit.first - 1, to: edit.last }) }, edit.last - edit.first + 1 > edit.versions ? "compare, with what others did meanwhile" : "compare")),
    edit.changes_schema && h("p", {}, "classes or properties"),
    edit.objects.map((each) => h("p", {}, h("a", { href: objectLink(path, each.class, each.key) }, written(`${each.class} ${keyText(each.key)}`)), what(each))),
    rest > 0 && h("p", { class: "muted" }, `and ${counted(rest, "object")} more`));
}

/** What a version does, as people would say it. */
export function sentence(version, path) {
  const parts = [];
  if (version.schema > 0) parts.push(`${number(version.schema)} of the schema`);
  for (const [word, count] of [["created", version.created], ["changed", version.changed], ["erased", version.erased]]) {
    if (count > 0) parts.push(`${word} ${number(count)}`);
  }
  const rest = version.created + version.changed + version.erased - version.objects.length;
  return [parts.length > 0 ? parts.join(", ") : version.merged ? "nothing: the merge has left nothing of it" : "nothing", version.objects.length > 0 && ": ",
    version.objects.map((each, index) => [index > 0 && ", ", h("a", { href: objectLink(path, each.class, each.key) }, written(`${each.class} ${keyText(each.key)}`))]),
    rest > 0 && ` and ${number(rest)} more`];
}

/** The author of a version. */
export function author({ client, user, release }) {
  if (client === 0) return h("span", { class: "author" }, h("span", { class: "dot server", "aria-hidden": "true" }), "the server");
  const name = release ? `${Math.floor(release / 1e6)}.${Math.floor(release / 1000) % 1000}.${release % 1000}` : "";
  return h("span", { class: "author", title: name ? `realm-core ${name}` : null }, h("span", { class: `dot ${hue(client)}`, "aria-hidden": "true" }),
    user ? h("a", { class: "plain", href: link("/user", { user }) }, written(user)) : "somebody", h("small", {}, ` client ${client}`));
}

const timeSteps = 1000;

/** The version that is looked at, and the way to others: by their numbers, or by the server's clock. */
export function timeTravel(context, shown, file) {
  const path = context.get("path"), at = context.get("at"), isByTime = context.get("by") === "time", when = h("span", { class: "muted" });
  const label = h("b", {}, at ? `version ${number(Number(at))}` : "now"), goTo = (version) => context.go(context.here({ at: version === file.version ? "" : version }));
  let newest;
  const describe = async (version) => {
    newest = version;
    if (Number(version) === 0) { fill(when, "the empty file"); return; }
    try {
      const [answer, mark] = await Promise.all([get("/history", { path, before: version, limit: 1 }, context.signal), get("/moment", { path, version }, context.signal)]);
      const entry = answer.versions[0], time = mark.moment?.time ?? entry?.timestamp;
      if (newest === version && entry) fill(when, moment(changesetTime(time)), " by ", author(entry));
    } catch { fill(when, ""); }
  };
  if (at) describe(at);
  const control = isByTime ? byTime(context, path, at, label, goTo) : h("input", {
    type: "range", min: file.base_version, max: file.version, value: at || file.version, "aria-label": "Version that is looked at",
    oninput: ({ target }) => { label.textContent = `version ${number(Number(target.value))}`; describe(target.value); },
    onchange: ({ target }) => goTo(Number(target.value)),
  });
  const step = (by) => button(by < 0 ? "‹" : "›", () => {
    const next = Number(at || file.version) + by;
    if (next >= file.base_version && next <= file.version) goTo(next);
  }, { "aria-label": by < 0 ? "One version back" : "One version on", class: "quiet" });
  const kind = h("select", { "aria-label": "Go by", onchange: () => context.go(context.here({ by: kind.value })) },
    [["", "by version"], ["time", "by time"]].map(([value, name]) => h("option", { value, selected: (value === "time") === isByTime }, name)));
  return h("div", { class: at ? "time past" : "time" }, h("span", {}, at ? "As it was at " : "As it is ", label), step(-1), control, step(1), kind, when,
    at && h("a", { href: context.here({ at: "" }) }, "Back to now"),
    at && h("a", { href: link("/diff", { path, from: at }) }, "What is different now"));
}

/** A slider over the time that the server knows of, and a field for a moment. */
function byTime(context, path, at, label, goTo) {
  let [first, last] = [0, 0];
  const time = (place) => Math.round(first + (last - first) * place / timeSteps), iso = (each) => new Date(changesetTime(each)).toISOString().slice(0, 19);
  const look = async (moment) => {
    try { goTo((await get("/moment", { path, time: moment }, context.signal)).version); } catch (error) { if (error.name !== "AbortError") notify(error.message, true); }
  };
  const slider = h("input", {
    type: "range", min: 0, max: timeSteps, value: timeSteps, disabled: true, "aria-label": "Time that is looked at",
    oninput: () => { label.textContent = `${iso(time(slider.value)).replace("T", " ")} UTC`; field.value = iso(time(slider.value)); },
    onchange: () => look(time(slider.value)),
  });
  const field = h("input", { type: "datetime-local", step: 1, disabled: true, "aria-label": "Moment that is looked at, in UTC", onchange: () => {
    const chosen = Date.parse(`${field.value}Z`) - changesetTime(0);
    // The whole second that was chosen counts.
    if (chosen >= 0) look(chosen + 999);
  } });
  const begin = async () => {
    const known = await get("/moment", { path, version: at || "" }, context.signal);
    if (!known.oldest || !known.newest) { label.after(" (no times are known)"); return; }
    [first, last] = [known.oldest.time, known.newest.time];
    const now = known.moment?.time ?? (at ? first : last);
    slider.value = last > first ? Math.round((now - first) / (last - first) * timeSteps) : timeSteps;
    field.value = iso(now);
    [field.min, field.max] = [iso(first), iso(last)];
    slider.disabled = field.disabled = false;
  };
  begin().catch(() => {});
  return [slider, h("span", {}, field, " UTC")];
}
