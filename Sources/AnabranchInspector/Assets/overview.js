// The overview: the server now and in the last hour, and what an operator should know.

import { bytes, counted, fill, h, link, moment, number, refill, writtenPath } from "./dom.js";
import { get, repeat } from "./server.js";
import { rates } from "./plot.js";

const perSecond = (value) => (value >= 100 ? number(Math.round(value)) : value.toFixed(value >= 10 || value === 0 ? 0 : 1));
const milliseconds = (value) => (value >= 10 ? `${Math.round(value)} ms` : `${value.toFixed(2)} ms`);

const plots = [
  ["Connections", (value) => number(value), (look) => [["clients", look("anabranch_connections")], ["sessions", look("anabranch_sessions")]]],
  ["Messages a second", perSecond, (look, rate) => [["uploads", rate("anabranch_uploads_received_total")], ["downloads", rate("anabranch_downloads_made_total")]]],
  ["Versions a second", perSecond, (look, rate) => [["versions", rate("anabranch_versions_made_total")], ["commits", rate("anabranch_commits_total")]]],
  ["Time of an integration", milliseconds, (look, rate) => {
    const [sums, counts] = [rate("anabranch_commit_duration_seconds_sum"), rate("anabranch_commit_duration_seconds_count")];
    return [["on average", sums.map((sum, index) => (sum === null || !counts[index] ? null : (1000 * sum) / counts[index]))]];
  }],
  ["Network a second", bytes, (look, rate) => [["in", rate("anabranch_received_bytes_total")], ["out", rate("anabranch_sent_bytes_total")]]],
  ["Memory of the process", bytes, (look) => [["resident", look("process_resident_memory_bytes")], ["uploads that wait", look("anabranch_upload_memory_bytes")]]],
  ["Store", bytes, (look) => [["used", look("anabranch_store_used_bytes")], ["write-ahead", look("anabranch_store_write_ahead_log_bytes")]]],
  ["Processor", (value) => `${Math.round(value)} %`, (look, rate) => [["of one core", rate("process_cpu_seconds_total").map((value) => (value === null ? null : value * 100))]]],
];

export async function page(context) {
  context.title("Overview");
  const figures = plots.map(([label, format]) => Object.assign(document.createElement("line-plot"), { label, format }));
  const head = h("div", { class: "states" }), warnings = h("div", { class: "warnings" }), largest = h("div");
  const draw = (data) => {
    const isNew = data.time > (data.times.at(-1) ?? 0);
    const times = isNew ? data.times.concat(data.time) : data.times, samples = isNew ? data.samples.concat([data.now]) : data.samples;
    const look = (name) => samples.map((sample) => sample[data.names.indexOf(name)]);
    const rate = (name) => rates(times, look(name));
    plots.forEach(([, , lines], index) => figures[index].show(times, lines(look, rate).map(([name, values]) => ({ name, values }))));
    drawHead(head, data);
    drawWarnings(warnings, data.warnings);
    drawFiles(largest, data.files);
  };
  const data = await get("/overview", {}, context.signal);
  repeat(5000, context.signal, async () => draw(await get("/overview", {}, context.signal)));
  const content = h("section", { class: "overview" }, h("h1", { class: "hidden" }, "Overview"), head, warnings,
    h("div", { class: "plots" }, figures), largest);
  content.started = () => draw(data);
  return content;
}

function drawHead(head, data) {
  const percentiles = [50, 95, 99].map((part) => [part, percentile(data.buckets, part / 100)]);
  fill(head,
    h("p", { class: `state ${data.is_ready ? "good" : "bad"}` }, h("span", { class: "lamp", "aria-hidden": "true" }),
      data.is_ready ? "Serving" : `Not ready: ${data.status}`),
    h("p", {}, h("b", {}, number(data.files.count) + (data.files.cut ? "+" : "")), data.files.count === 1 ? " file" : " files"),
    h("p", {}, h("b", {}, bytes(data.files.log_bytes)), " of log"),
    percentiles[0][1] !== null && h("p", { title: "Since the server has started; at most so long." }, "integration ",
      percentiles.map(([part, bound], index) => [index > 0 && " · ", `p${part} `, h("b", {}, `≤ ${bound} ms`)])),
    h("p", { class: "muted" }, `${data.version} · ${moment(data.time * 1000)} UTC`));
}

function percentile(buckets, part) {
  const count = buckets.at(-1)?.count ?? 0;
  if (count === 0) return null;
  const bucket = buckets.find((each) => each.count >= part * count);
  return bucket.bound === "+Inf" ? "10000+" : String(Number(bucket.bound) * 1000);
}

function drawWarnings(place, warnings) {
  refill(place, warnings, () => warnings.map((warning) => h("div", { class: "warning" }, h("b", {}, warning.text), " ", warning.advice,
    warning.path && [" ", h("a", { href: link("/clients", { path: warning.path }) }, writtenPath(warning.path))])));
}

function drawFiles(place, files) {
  if (files.largest.length === 0) {
    return fill(place, h("div", { class: "empty" }, h("h2", {}, "No files yet"),
      h("p", {}, "A synced file appears here as soon as the first client has opened one.")));
  }
  refill(place, files, h("h2", {}, "Largest logs"), h("div", { class: "scroll" }, h("table", { class: "plain" },
    h("thead", {}, h("tr", {}, h("th", {}, "File"), h("th", { class: "n" }, "Log"), h("th", { class: "n" }, "Versions"), h("th", { class: "n" }, "Clients"))),
    h("tbody", {}, files.largest.map((file) => h("tr", {},
      h("td", {}, h("a", { href: link("/file", { path: file.path }) }, writtenPath(file.path))),
      h("td", { class: "n" }, bytes(file.log_bytes)), h("td", { class: "n" }, number(file.version)), h("td", { class: "n" }, number(file.clients))))))),
  files.count > files.largest.length && h("p", {}, h("a", { href: "/files" }, `All ${counted(files.count, "file")}`)));
}
