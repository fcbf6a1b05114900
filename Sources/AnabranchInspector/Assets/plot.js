// Plots of the last hour.

import { fill, h } from "./dom.js";

const [width, height] = [320, 72];
/** The shortest time that a plot shows, in seconds. */
const spanMin = 60;

/** <line-plot>: `title`, `format(value)`, and `show(times, lines)`, where a line is {name, values}. */
export class LinePlot extends HTMLElement {
  format = (value) => String(Math.round(value));

  connectedCallback() {
    this.figure = h("p", { class: "figures" });
    this.picture = h("svg", {
      viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", class: "plot", role: "img", "aria-label": `${this.label}, up to an hour back`,
    });
    this.scale = h("p", { class: "scale" });
    this.append(h("h3", {}, this.label), this.figure, this.picture, this.scale);
    this.picture.addEventListener("pointermove", (event) => this.#point(event));
    this.picture.addEventListener("pointerleave", () => this.#point(undefined));
  }

  show(times, lines) {
    this.times = times;
    this.lines = lines;
    const end = times.at(-1) ?? 0, span = Math.max(spanMin, end - (times[0] ?? end));
    this.span = span;
    const all = lines.flatMap((line) => line.values).filter((value) => value !== null);
    const most = Math.max(1e-9, ...all), x = (time) => width - ((end - time) / span) * width;
    const y = (value) => height - 3 - (value / most) * (height - 10);
    fill(this.picture,
      [0.25, 0.5, 0.75].map((part) => h("line", { class: "grid", x1: part * width, x2: part * width, y1: 0, y2: height })),
      lines.map((line, index) => h("path", { class: `line line${index}`, d: path(times, line.values, x, y) })),
      this.mark = h("line", { class: "mark", x1: -9, x2: -9, y1: 0, y2: height }));
    fill(this.scale, h("span", {}, span >= 3500 ? "an hour ago" : `${Math.round(span / 60)} min ago`), h("span", {}, `at most ${this.format(Math.max(0, ...all))}`), h("span", {}, "now"));
    this.#point(undefined);
  }

  #point(event) {
    let index = this.times.length - 1;
    if (event && index > 0) {
      const box = this.picture.getBoundingClientRect(), end = this.times[index];
      const time = end - (1 - (event.clientX - box.left) / box.width) * this.span;
      index = this.times.reduce((best, each, at) => (Math.abs(each - time) < Math.abs(this.times[best] - time) ? at : best), 0);
    }
    const place = event ? width - ((this.times.at(-1) - this.times[index]) / this.span) * width : -9;
    this.mark?.setAttribute("x1", place);
    this.mark?.setAttribute("x2", place);
    fill(this.figure, this.lines.map((line, at) => [
      h("span", { class: `series series${at}` }, h("b", {}, this.#text(line.values[index])), ` ${line.name}`)]),
    event && h("span", { class: "when" }, new Date(this.times[index] * 1000).toISOString().slice(11, 19)));
  }

  #text(value) { return value === undefined || value === null ? "–" : this.format(value); }
}

function path(times, values, x, y) {
  let text = "", isDown = false;
  times.forEach((time, index) => {
    const value = values[index];
    if (value === null || value === undefined) { isDown = false; return; }
    text += `${isDown ? "L" : "M"}${x(time).toFixed(1)} ${y(value).toFixed(1)}`;
    isDown = true;
  });
  return text;
}

/** How much a counter has grown in each second: null where it is not known, as after a restart. */
export function rates(times, values) {
  return values.map((value, index) => {
    if (index === 0) return null;
    const seconds = times[index] - times[index - 1], growth = value - values[index - 1];
    return seconds > 0 && seconds < 60 && growth >= 0 ? growth / seconds : null;
  });
}

customElements.define("line-plot", LinePlot);
