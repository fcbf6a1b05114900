// The recording of a simulated world (Spec/Inspector.md, section 8): its events, and the state of the world after any
// number of them.

/** The largest file that is opened, in bytes. */
export const recordingBytesMax = 64 << 20;
const clientsMax = 64, filesMax = 16, snapshotLength = 2048;
/** The newest versions of a file that a state keeps. */
const jointsMax = 200;

const refuse = (line, reason) => { throw new Error(`line ${line}: ${reason}`); };
const isNumber = (value) => Number.isSafeInteger(value) && value >= 0;

/** Each event's parts after its time and name: c a client, f a file, n a number, i any integer, t a text, b true or false, o a client, -1 for the server, or null, * anything, … more of them. */
const forms = {
  __proto__: null,
  start: "c", end: "c", again: "c", anew: "c", connect: "c", disconnect: "c", close: "cn", say: "ctn", arrive: "c", tell: "ctn", hear: "c",
  drop: "cbb", clog: "ci", write: "c", place: "cnn", ask: "ct", error: "cnt", happens: "t…", serve: "", stop: "", calm: "", version: "fno*n*",
  expire: "fo", seal: "f", trim: "fn", generation: "f", restore: "…", claim: "it", same: "cnt", silence: "", cut: "",
};

export class Recording {
  #snapshots = [];

  /** Reads a recording. What is no recording is refused with the line and the reason. */
  constructor(text) {
    const lines = text.split("\n");
    if (lines.at(-1) === "") lines.pop();
    const read = (number) => {
      try { return JSON.parse(lines[number - 1]); } catch { return refuse(number, "this is not JSON, so it is no recording of anabranch-lab simulate --record"); }
    };
    this.head = read(1);
    if (this.head?.world !== 1 || !Array.isArray(this.head.clients) || !Array.isArray(this.head.files) || !isNumber(this.head.start) || typeof this.head.seed !== "string") {
      refuse(1, "this is no recording of anabranch-lab simulate --record, or one of a release that this page does not know");
    }
    const { clients, files } = this.head;
    if (clients.length > clientsMax || files.length > filesMax || clients.some((each, index) => each?.client !== index || !isNumber(each.file) || each.file >= files.length)) {
      refuse(1, "the clients are not as a recording has them");
    }
    this.faults = Array.isArray(this.head.faults) ? this.head.faults.map(String).join(",") : "";
    this.end = lines.length > 1 ? read(lines.length) : null;
    if (typeof this.end?.passed !== "boolean") refuse(lines.length, "the end is missing: the file was not written as a whole");
    this.events = [];
    let time = 0;
    for (let number = 2; number < lines.length; number += 1) {
      const event = read(number);
      if (!Array.isArray(event) || !isNumber(event[0]) || event[0] < time || !this.#fits(event)) refuse(number, "this is not an event of a recording");
      time = event[0];
      this.events.push(event);
    }
    this.#look();
  }

  get length() { return this.events.length; }

  #fits(event) {
    const form = forms[event[1]];
    if (form === undefined) return false;
    if (form.endsWith("…")) return event.length >= form.length + 1 && (form.length === 1 || typeof event[2] === "string") && event.slice(form.length + 1).every((each) => isNumber(each));
    return event.length === form.length + 2 && [...form].every((kind, index) => {
      const part = event[index + 2];
      switch (kind) {
        case "c": return isNumber(part) && part < this.head.clients.length;
        case "f": return isNumber(part) && part < this.head.files.length;
        case "n": return isNumber(part);
        case "i": return Number.isSafeInteger(part);
        case "t": return typeof part === "string";
        case "b": return typeof part === "boolean";
        case "o": return part === null || (Number.isSafeInteger(part) && part >= -1 && part < this.head.clients.length);
        default: return true;
      }
    });
  }

  /** Finds out where each message ends, and where something is to be seen. */
  #look() {
    this.ends = new Int32Array(this.length).fill(this.length);
    this.lost = new Uint8Array(this.length);
    this.merges = [];
    this.faultPlaces = [];
    const state = this.#fresh();
    this.#snapshots = [structuredClone(state)];
    this.events.forEach((event, index) => {
      this.#apply(state, index, (message, isLost) => {
        this.ends[message] = index;
        this.lost[message] = isLost ? 1 : 0;
      });
      if (event[1] === "version" && event[7] !== null) this.merges.push(index);
      if (event[1] === "happens" && event[2] in faults || event[1] === "stop" || event[1] === "error") this.faultPlaces.push(index);
      if ((index + 1) % snapshotLength === 0) this.#snapshots.push(structuredClone(state));
    });
  }

  #fresh() {
    return {
      serves: false, faultsAreOff: false, merged: -1, time: 0,
      files: this.head.files.map(() => ({ version: 0, base: 0, joints: [] })),
      clients: this.head.clients.map(() => ({ runs: false, isConnected: false, isHalfOpen: false, cloggedUntil: 0, version: 0, waiting: 0, up: [], down: [], same: null })),
    };
  }

  /** The state after so many events. */
  state(count) {
    const start = Math.min(Math.floor(count / snapshotLength), this.#snapshots.length - 1), state = structuredClone(this.#snapshots[start]);
    return this.forward(state, start * snapshotLength, count);
  }

  /** The same state, some events later. */
  forward(state, from, to) {
    for (let index = from; index < to; index += 1) this.#apply(state, index);
    return state;
  }

  #apply(state, index, onend = () => {}) {
    const [time, name, first, second, third] = this.events[index];
    state.time = time;
    const client = "c" === (forms[name][0] ?? "") ? state.clients[first] : undefined;
    const lose = (each, isUp = true, isDown = true) => {
      for (const queue of [isUp ? each.up : [], isDown ? each.down : []]) queue.splice(0).forEach((message) => onend(message, true));
    };
    const take = (queue) => { if (queue.length > 0) onend(queue.shift(), false); };
    switch (name) {
      case "start": Object.assign(client, { runs: true, isConnected: false }); break;
      case "anew": lose(client); Object.assign(client, { runs: false, isConnected: false, isHalfOpen: false, version: 0, waiting: 0, same: null }); break;
      case "end": case "again": lose(client); Object.assign(client, { runs: false, isConnected: false, isHalfOpen: false }); break;
      case "connect": lose(client); Object.assign(client, { isConnected: true, isHalfOpen: false, cloggedUntil: 0 }); break;
      case "disconnect": lose(client); Object.assign(client, { isConnected: false, isHalfOpen: false, cloggedUntil: 0 }); break;
      case "say": client.up.push(index); break;
      case "arrive": take(client.up); break;
      case "tell": client.down.push(index); break;
      case "hear": take(client.down); break;
      case "drop": lose(client, second, third); break;
      case "clog": client.cloggedUntil = second; break;
      case "place": Object.assign(client, { version: second, waiting: third }); break;
      case "same": client.same = { version: second, digest: third }; break;
      case "happens": if (second < state.clients.length && first === "halfOpen") state.clients[second].isHalfOpen = true; break;
      case "serve": state.serves = true; break;
      case "stop": state.serves = false; break;
      case "calm": state.faultsAreOff = true; break;
      case "version": {
        const file = state.files[first], merge = this.events[index][7];
        file.version = second;
        file.joints.push({ version: second, client: third, isMerged: merge !== null, index });
        if (file.joints.length > jointsMax) file.joints.shift();
        if (merge !== null) state.merged = index;
        this.head.clients.forEach((each, number) => { if (each.file === first) state.clients[number].same = null; });
        break;
      }
      case "trim": state.files[first].base = second; break;
      case "restore": state.files.forEach((file, number) => {
        file.version = this.events[index][2 + number] ?? 0;
        file.joints = file.joints.filter((joint) => joint.version <= file.version);
      }); break;
      case "silence": case "cut": state.clients.forEach((each) => lose(each)); break;
      default: break;
    }
  }

  /** The next place of a sorted list after a number of events, as a number of events; 0 if there is none. */
  static after(places, count) { return (places.find((index) => index >= count) ?? -1) + 1; }

  /** An event in words. */
  words(index) {
    const [, name, first, second, third] = this.events[index], client = `client ${first}`;
    switch (name) {
      case "start": return `${client} starts`;
      case "end": return `the process of ${client} ends`;
      case "again": return `the user of ${client} starts it again`;
      case "anew": return `${client} begins anew, with an empty file`;
      case "connect": return `${client} connects`;
      case "disconnect": return `${client} has no connection any more`;
      case "close": return `${client} is told that the connection is closed, with ${second}`;
      case "say": return `${client} sends ${second}, ${third} B`;
      case "arrive": return `a message of ${client} has arrived`;
      case "tell": return `the server sends ${client} ${second}, ${third} B`;
      case "hear": return `${client} has read a message`;
      case "drop": return `what was on its way ${[second && "from", third && "to"].filter(Boolean).join(" and ")} ${client} is lost`;
      case "clog": return `nothing gets through to or from ${client} for ${((second - this.events[index][0]) / 1000).toFixed(1)} s`;
      case "write": return `${client} writes`;
      case "place": return `${client} has version ${second}${third > 0 ? `, and ${third} of its own changes wait` : ""}`;
      case "ask": return `${client} asks for ${second}`;
      case "error": return `${client} is told: ${third} (${second})`;
      case "happens": return happening(first, second);
      case "serve": return "the server starts";
      case "stop": return "the server's process ends";
      case "calm": return "from now on nothing goes wrong any more";
      case "version": {
        const merge = this.events[index][7];
        const by = third === -1 ? "the server" : third === null ? "a client that has begun anew since" : `client ${third}`;
        return `version ${second}${this.ofFile(first)} by ${by}${merge ? `: merging has changed it${merge.lost > 0 ? `, and ${merge.lost} of its instructions are lost` : ""}` : ""}`;
      }
      case "expire": return second === null ? `a client file${this.ofFile(first)} has expired` : `client ${second} was away for too long: its file has expired`;
      case "seal": return `versions${this.ofFile(first)} are sealed`;
      case "trim": return `the log${this.ofFile(first)} begins after version ${second} now: nobody needs what was before`;
      case "generation": return `what fresh clients begin with is made anew${this.ofFile(first)}`;
      case "restore": return `the server's store is restored from a backup, and ends with version ${this.events[index].slice(2).join(" and ")}`;
      case "claim": return `${first === -1 ? "the server" : client} writes that it is ${second}`;
      case "same": return `${client} has version ${second}, with the state ${third.slice(0, 8)}`;
      case "silence": return "from here on messages are not recorded: there were too many";
      default: return "the recording ends here: there was too much";
    }
  }

  ofFile(number) { return this.head.files.length > 1 ? ` of file ${number}` : ""; }

  /** What merging has changed in the version of an event; null for none. */
  merge(index) { return index >= 0 ? this.events[index][7] : null; }
}

/** What goes wrong, in words; `{}` is the client. */
const faults = {
  __proto__: null,
  cut: "the connection of {} is cut", halfOpen: "the connection of {} is gone, and {} does not know", clog: "the network of {} is clogged",
  clientCrash: "{} crashes", clientStoreError: "the disk of {} fails", serverCrash: "the server crashes", serverStoreError: "the server's disk fails",
  lateStoreError: "the server's disk fails although it has done its work", diskFull: "the server's disk is full", slowStore: "the server's disk is slow",
  restore: "the server's store is restored from a backup", clone: "the file of {} is copied to another device", clockJump: "the server's clock jumps",
  absence: "a long time passes, with one client away", expiredToken: "the token of {} has expired", rights: "the rights of {} change",
  schemaConflict: "{} gives a column another type than others do", roles: "the roles change", clientClock: "the clock of {} goes wrong",
};

const others = {
  __proto__: null,
  merge: "{} merges what it has downloaded with its own changes", bootstrap: "{} has what it begins with", "part of a bootstrap": "{} has a part of what it begins with",
  "client reset": "{} has to begin again from what the server has", recovered: "{} has made its own changes again", discarded: "{} has dropped its own changes",
  "thrown away": "the file of {} is thrown away", "query refused": "the query of {} is refused", "compensating write": "a write is undone, and its client is told",
  superseded: "an older connection of {} is closed", "clock right again": "the clock of {} is right again", "refused by client": "{} cannot take what it was sent",
  "token refused": "the token of {} is refused, and it fetches another one", "token of a fork refused": "the token of {} is refused", "twin stopped": "{} is a copy, and stops",
  "copies meet": "{} meets the other copy of its file", "upload without permission": "{} uploads what its user may not write",
};

function happening(name, client) {
  const text = faults[name] ?? others[name] ?? (name.startsWith("error ") ? `{} is told of ${name}` : name);
  return text.replaceAll("{}", client === undefined ? "a client" : `client ${client}`);
}
