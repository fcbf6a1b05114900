// A simulated world, played from its recording: clients on the left, the server's log on the right, and what goes
// between them.

import { button, fill, h, link, notify, number, refill } from "./dom.js";
import { debounced } from "./files.js";
import { Recording, recordingBytesMax } from "./recording.js";
import { Refusal } from "./server.js";
import { hue } from "./river.js";

const laneHeight = 48, top = 34, right = 44, dotsMax = 40, eventsPerSecond = 12, logLength = 12, jointsShown = 60;
const speeds = [["0.25", "¼"], ["1", "1"], ["4", "4"], ["16", "16"], ["64", "64"]];
/** A client's colour; 0 is the server to the rest of the inspector. */
const hueOf = (client) => hue(client + 1);
/** The recording that was opened last; a link without one of its own shows it. */
let opened = null;
let style = null;

/** Its style sheet is loaded with it, and not by all pages. */
function withStyle() {
  style ??= new Promise((resolve) => {
    document.head.append(h("link", { rel: "stylesheet", href: "/assets/world.css", onload: resolve, onerror: resolve }));
  });
  return style;
}

export async function page(context) {
  context.title("A world");
  await withStyle();
  const seed = context.get("seed"), faults = context.get("faults");
  const isOpened = opened && (!seed || (opened.head.seed === seed && opened.faults === faults));
  if (!isOpened && context.session.plays && seed) opened = await fetched(seed, faults, context.signal);
  else if (!isOpened && seed) return chooser(context, `The world of seed ${seed} is not here: it is made by`, `anabranch-lab simulate --seed ${seed}${faults ? ` --faults ${faults}` : ""} --record world.jsonl`);
  return opened ? player(context, opened) : chooser(context, "A world is made by", "anabranch-lab simulate --seed 7 --record world.jsonl");
}

async function fetched(seed, faults, signal) {
  const response = await fetch(link("/world.jsonl", { seed, faults }), { signal, cache: "no-store" });
  if (!response.ok) throw new Refusal(response.status, await response.json());
  return new Recording(await response.text());
}

/** Opens a file of the reader's. */
async function open(file, context) {
  try {
    if (file.size > recordingBytesMax) throw new Error(`a recording has ${recordingBytesMax >> 20} MiB at most`);
    opened = new Recording(await file.text());
  } catch (error) {
    notify(`${file.name} cannot be played: ${error.message}`, true);
    return;
  }
  notify("");
  context.go(link("/world", { seed: opened.head.seed, faults: opened.faults }));
}

const fileField = (context) => h("label", { class: "open" }, "Open a recording ", h("input", {
  type: "file", accept: ".jsonl,.json,application/jsonl", onchange: ({ target }) => target.files.length > 0 && open(target.files[0], context),
}));

const seedField = (context) => {
  const field = h("input", { type: "text", inputmode: "numeric", pattern: "[0-9]{1,20}", value: context.get("seed"), size: 8, required: true });
  return h("form", { class: "seed", onsubmit: (event) => { event.preventDefault(); context.go(link("/world", { seed: field.value.trim() })); } },
    h("label", {}, "Seed ", field), " ", h("button", { type: "submit" }, "Play it"));
};

function droppable(element, context) {
  element.addEventListener("dragover", (event) => event.preventDefault());
  element.addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files.length > 0) open(event.dataTransfer.files[0], context);
  });
  return element;
}

function chooser(context, text, command) {
  return droppable(h("section", { class: "world" }, h("h1", {}, "A world that plays"),
    h("p", {}, "Server, network and clients in virtual time, with all that goes wrong: each seed is a world of its own. ", text), h("pre", {}, command),
    h("div", { class: "tools" }, context.session.plays ? seedField(context) : [fileField(context), h("span", { class: "muted" }, "or drop it here. It stays in the browser.")])), context);
}

function player(context, recording) {
  const total = recording.length, calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  let place = Math.min(total, Math.max(0, Math.floor(Number(context.get("at"))) || 0)), speed = Number(context.get("speed")) || 4;
  let shown = { count: 0, state: recording.state(0) }, isPlaying = false, last = 0, drawn = 0;

  const slider = h("input", { type: "range", min: 0, max: total, value: place, "aria-label": "Events so far", oninput: () => {
    const chosen = Number(slider.value);
    stop();
    seek(chosen);
  } });
  const play = button("Play", () => (isPlaying ? stop() : begin()), { class: "primary play" });
  const rate = h("select", { "aria-label": "Speed", onchange: () => { speed = Number(rate.value); note(); } },
    speeds.map(([value, label]) => h("option", { value, selected: Number(value) === speed }, `${label} ×`)));
  const jump = (label, next) => button(label, () => { stop(); seek(next()); });
  const clock = h("span", { class: "clocktext" }), said = h("p", { class: "said", role: "status" });
  const picture = h("svg", { class: "lanes", "aria-hidden": "true" }), strips = h("div", { class: "strips" });
  const rows = h("tbody"), log = h("ol", { class: "events" }), merged = h("div", { class: "merged" }), ended = h("div", { class: "ended" });
  const arms = new Arms(picture, recording);

  const note = debounced(() => { if (!context.signal.aborted) context.replace({ seed: recording.head.seed, faults: recording.faults, at: Math.floor(place) || "", speed: speed === 4 ? "" : speed }); }, 200);

  function seek(to) {
    place = Math.max(0, Math.min(total, to));
    draw(true);
    note();
  }

  function state() {
    const count = Math.floor(place);
    if (count >= shown.count && count - shown.count < 4096) recording.forward(shown.state, shown.count, count);
    else shown = { count, state: recording.state(count) };
    shown.count = count;
    return shown.state;
  }

  /** Pictures follow each frame; words, which take a reader time, a few times a second. */
  function draw(isWhole) {
    const now = state(), count = shown.count;
    arms.draw(now, calm ? count : place);
    slider.value = count;
    if (!isWhole && performance.now() - drawn < 250) return;
    drawn = performance.now();
    slider.setAttribute("aria-valuetext", `${number(count)} of ${number(total)} events`);
    fill(clock, `${number(count)} of ${number(total)} · ${duration(now.time)}`);
    fill(said, count > 0 ? recording.words(count - 1) : "Nothing has happened yet.");
    fill(strips, now.files.map((file, index) => strip(recording, file, index, (event) => { stop(); seek(event + 1); })));
    refill(rows, now.clients, () => now.clients.map((client, index) => clientRow(recording, now, client, index)));
    fill(log, Array.from({ length: Math.min(logLength, count) }, (_, back) => count - 1 - back).map((event) =>
      h("li", {}, h("span", { class: "muted" }, duration(recording.events[event][0])), " ", recording.words(event))));
    refill(merged, now.merged, () => mergePanel(recording, now.merged));
    refill(ended, count === total, () => count === total && ending(recording, now));
  }

  function begin() {
    if (place >= total) place = 0;
    isPlaying = true;
    play.textContent = "Pause";
    // Nobody can be read all of it aloud.
    said.setAttribute("aria-live", "off");
    last = performance.now();
    requestAnimationFrame(step);
  }

  function stop() {
    isPlaying = false;
    play.textContent = "Play";
    said.setAttribute("aria-live", "polite");
    place = Math.floor(place);
    draw(true);
    note();
  }

  function step(time) {
    if (!isPlaying || context.signal.aborted) return;
    place = Math.min(total, place + (Math.min(250, Math.max(0, time - last)) / 1000) * eventsPerSecond * speed);
    last = time;
    draw(false);
    note();
    if (place >= total) stop();
    else requestAnimationFrame(step);
  }

  addEventListener("keydown", (event) => {
    if (event.target.closest("input, select, textarea, button, a, summary") || event.ctrlKey || event.metaKey || event.altKey) return;
    const actions = { " ": () => (isPlaying ? stop() : begin()), ArrowRight: () => { stop(); seek(place + 1); }, ArrowLeft: () => { stop(); seek(place - 1); } };
    if (!(event.key in actions)) return;
    event.preventDefault();
    actions[event.key]();
  }, { signal: context.signal });

  const content = droppable(h("section", { class: "world" },
    h("div", { class: "tools" }, h("h1", {}, `The world of seed ${recording.head.seed}`), h("span", { class: "gap" }), context.session.plays ? seedField(context) : fileField(context)),
    h("p", { class: "muted plan" }, String(recording.head.plan)),
    h("div", { class: "tools controls" }, play, jump("Back", () => place - 1), jump("Step", () => place + 1),
      jump("Next fault", () => Recording.after(recording.faultPlaces, Math.floor(place)) || total),
      jump("Next merge", () => Recording.after(recording.merges, Math.floor(place)) || total), rate, clock),
    slider, said, h("div", { class: "stage" }, picture), strips, ended,
    h("div", { class: "columns" }, h("div", {}, h("h2", {}, "Clients"), h("div", { class: "scroll" }, h("table", { class: "plain" },
      h("thead", {}, h("tr", {}, ["Client", "State", "Has version", "Own changes that wait", "On their way"].map((name, index) => h("th", { class: index > 1 ? "n" : null }, name)))), rows)), merged),
    h("div", {}, h("h2", {}, "What happened"), log))), context);
  content.started = () => {
    const watch = new ResizeObserver(() => { arms.resize(picture.parentElement.clientWidth); draw(true); });
    watch.observe(picture.parentElement);
    context.signal.addEventListener("abort", () => watch.disconnect());
    arms.resize(picture.parentElement.clientWidth);
    draw(true);
  };
  return content;
}

/** Virtual time since the world began. */
function duration(milliseconds) {
  const seconds = milliseconds / 1000, days = Math.floor(seconds / 86400);
  if (seconds < 60) return `${seconds.toFixed(3)} s`;
  const text = [Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60, Math.floor(seconds) % 60].map((each) => String(each).padStart(2, "0")).join(":");
  return days > 0 ? `${days} d ${text}` : text;
}

/** A client's state, in a word, with the class of its colour. */
function condition(client, time) {
  if (!client.runs) return ["off", "not running"];
  if (!client.isConnected) return ["apart", "not connected"];
  if (client.isHalfOpen) return ["bad", "connection lost, not known"];
  if (client.cloggedUntil > time) return ["bad", "clogged"];
  return ["good", "connected"];
}

function clientRow(recording, now, client, index) {
  const [kind, word] = condition(client, now.time), { file, sdk } = recording.head.clients[index];
  return h("tr", {}, h("td", {}, h("span", { class: `dot ${hueOf(index)}`, "aria-hidden": "true" }), ` ${index}${recording.ofFile(file)} `, sdk !== "realm" && h("small", {}, String(sdk))),
    h("td", { class: `is-${kind}` }, word, client.same && h("span", { class: "badge same" }, `same state ${client.same.digest.slice(0, 8)}`)),
    h("td", { class: "n" }, `${number(client.version)} of ${number(now.files[file].version)}`), h("td", { class: "n" }, number(client.waiting)),
    h("td", { class: "n" }, `${number(client.up.length)} / ${number(client.down.length)}`));
}

/** The newest versions of a log, as joints; hollow where merging has changed the upload. */
function strip(recording, file, index, onchoose) {
  const places = Math.min(jointsShown, Math.floor((innerWidth - 40) / 12)), joints = file.joints.slice(-places), words = `Log${recording.ofFile(index)}: ${file.version === 0 ? "empty" : `versions ${number(Math.min(file.base + 1, file.version))} to ${number(file.version)}`}${file.base > 0 ? ", trimmed" : ""}`;
  const picture = h("svg", { class: "strip", viewBox: `0 0 ${places * 12} 16`, preserveAspectRatio: "xMinYMid meet", "aria-hidden": "true" },
    h("path", { class: "trunk", d: `M0 8H${places * 12}` }),
    joints.map((joint, place) => h("circle", {
      class: `joint ${joint.client === -1 || joint.client === null ? "server" : hueOf(joint.client)}${joint.isMerged ? " merged" : ""}${joint.version <= file.base ? " gone" : ""}`,
      cx: place * 12 + 8, cy: 8, r: joint.isMerged ? 5 : 3.5, "data-event": joint.index,
    })));
  picture.addEventListener("click", ({ target }) => { if (target.dataset.event) onchoose(Number(target.dataset.event)); });
  return h("div", {}, h("p", { class: "muted" }, words), picture);
}

/** What the last merge has changed, with the reasons. */
function mergePanel(recording, index) {
  if (index < 0) return "";
  const merge = recording.merge(index), effects = Array.isArray(merge?.effects) ? merge.effects : [];
  return [h("h2", {}, "The last merge that changed something"), h("p", {}, recording.words(index)),
    effects.map((effect) => h("div", { class: "effect" }, h("p", {}, h("span", { class: "badge rule" }, String(effect?.rule)), " ", String(effect?.sentence)),
      h("dl", { class: "facts" }, h("dt", {}, "uploaded"), h("dd", {}, h("code", {}, String(effect?.before))),
        h("dt", {}, "met"), h("dd", {}, h("code", {}, String(effect?.met)), h("small", {}, ` of version ${String(effect?.of)}`)),
        h("dt", {}, "became"), h("dd", {}, effect?.after === null ? h("span", { class: "lost" }, "nothing: it is lost") : h("code", {}, String(effect?.after)))))),
    merge?.more > 0 && h("p", { class: "muted" }, `and ${number(Number(merge.more))} more`)];
}

/** The end of a world: whether all have the same. */
function ending(recording, now) {
  if (!recording.end.passed) return h("div", { class: "warning" }, h("b", {}, "This world has broken a promise."), " ", String(recording.end.failure));
  return recording.head.files.map((_, file) => {
    const all = now.clients.filter((_, index) => recording.head.clients[index].file === file), states = new Set(all.map((each) => each.same?.digest));
    const state = states.size === 1 && [...states][0];
    return h("p", { class: "kept" }, `All ${number(all.length)} clients${recording.ofFile(file)} have version ${number(now.files[file].version)}`,
      state ? `, and the same state ${state.slice(0, 8)}.` : ", and each of them has what it may see of it.");
  });
}

/** The clients as arms that join the log, with the messages on their way. */
class Arms {
  #dots = [];

  constructor(picture, recording) {
    Object.assign(this, { picture, recording, width: 0 });
    this.lanes = recording.head.clients.map((each, index) => ({
      arm: h("path", { class: `arm ${hueOf(index)}` }), head: h("circle", { class: `joint ${hueOf(index)}`, r: 6, cx: 12 }),
      name: h("text", { class: "name", x: 26 }, `client ${index}${recording.ofFile(each.file)}`), place: h("text", { class: "place", "text-anchor": "end" }),
    }));
    this.trunk = h("path", { class: "trunk" });
    this.words = h("text", { class: "name", y: 16, "text-anchor": "end" }, "server");
    fill(picture, this.trunk, this.words, this.lanes.map((lane) => [lane.arm, lane.head, lane.name, lane.place]));
  }

  y(index) { return top + 22 + index * laneHeight; }

  resize(width) {
    this.width = Math.max(200, width);
    const height = this.y(this.lanes.length) + 4, x = this.width - right;
    this.picture.setAttribute("viewBox", `0 0 ${this.width} ${height}`);
    this.picture.setAttribute("height", height);
    this.picture.setAttribute("width", this.width);
    this.trunk.setAttribute("d", `M${x} ${top - 8}V${height}`);
    this.words.setAttribute("x", this.width - 4);
    this.lanes.forEach((lane, index) => {
      const y = this.y(index);
      lane.arm.setAttribute("d", `M12 ${y}H${x - 34}Q${x} ${y} ${x} ${y + 22}`);
      lane.head.setAttribute("cy", y);
      lane.name.setAttribute("y", y - 10);
      lane.place.setAttribute("x", x - 30);
      lane.place.setAttribute("y", y - 10);
    });
  }

  draw(state, place) {
    if (this.width === 0) return;
    this.trunk.setAttribute("class", state.serves ? "trunk" : "trunk stopped");
    this.words.textContent = state.serves ? "server" : "no server";
    let used = 0;
    this.lanes.forEach((lane, index) => {
      const client = state.clients[index], [kind] = condition(client, state.time), file = state.files[this.recording.head.clients[index].file];
      lane.arm.setAttribute("class", `arm ${hueOf(index)} is-${kind}`);
      lane.head.setAttribute("class", `joint ${hueOf(index)}${client.runs ? "" : " merged"}`);
      const text = `${client.same ? "✓ " : ""}${client.version} of ${file.version}${client.waiting > 0 ? ` · ${client.waiting} wait` : ""}`;
      if (lane.place.textContent !== text) lane.place.textContent = text;
      for (const [queue, isUp] of [[client.up, true], [client.down, false]]) {
        for (const message of queue.slice(0, dotsMax)) this.#dot(used++, index, message, isUp, place);
      }
    });
    for (let rest = used; rest < this.#dots.length && this.#dots[rest].isShown; rest += 1) {
      this.#dots[rest].element.setAttribute("visibility", "hidden");
      this.#dots[rest].isShown = false;
    }
  }

  #dot(slot, index, message, isUp, place) {
    if (!this.#dots[slot]) {
      this.#dots[slot] = { element: h("circle", { r: 4 }), isShown: true };
      this.picture.append(this.#dots[slot].element);
    }
    const dot = this.#dots[slot], end = this.recording.ends[message], isLost = this.recording.lost[message] === 1, x1 = this.width - right;
    const share = Math.min(1, Math.max(0, (place - message - 1) / Math.max(1, end - message))) * (isLost ? 0.7 : 1), part = isUp ? share : 1 - share;
    const x = 12 + part * (x1 - 12), bend = Math.max(0, (x - (x1 - 34)) / 34);
    dot.element.setAttribute("cx", x.toFixed(1));
    dot.element.setAttribute("cy", (this.y(index) + 22 * bend * bend).toFixed(1));
    dot.element.setAttribute("class", `message ${isUp ? hueOf(index) : "server"}${isLost ? " dying" : ""}`);
    if (!dot.isShown) dot.element.setAttribute("visibility", "visible");
    dot.isShown = true;
  }
}
