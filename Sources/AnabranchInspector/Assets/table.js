// A table of any length: only the rows that are seen are there.

import { fill, h, number } from "./dom.js";

const rowHeight = 30;
const pageRows = 100;
/** Browsers have elements of some 17 million pixels at most; beyond that the scroll bar is a scale. */
const heightMax = 12_000_000;

/**
 * <virtual-table>: give it `columns` ({name, label, width, sort?, cell(row)}) and `load(offset, limit)`, which answers
 * {rows, count, complete}, and call `start()`. Arrow keys, Page Up and Down, Home and End move; Enter opens a row.
 */
export class VirtualTable extends HTMLElement {
  columns = [];
  load = async () => ({ rows: [], count: 0, complete: true });
  open = () => {};
  onorder = () => {};
  onprogress = () => {};
  label = "objects";
  order = { sort: "", isDescending: false };

  #pages = new Map();
  #waiting = new Set();
  #count = 0;
  #isComplete = false;
  #active = 0;
  #rows = [];
  #isOver = false;

  connectedCallback() {
    this.viewport = h("div", {
      class: "viewport", role: "grid", tabindex: "0", "aria-label": this.label,
      onscroll: () => this.#draw(), onkeydown: (event) => this.#move(event),
    });
    this.head = h("div", { class: "head", role: "row", "aria-rowindex": "1" });
    this.space = h("div", { class: "space", role: "rowgroup" });
    this.viewport.append(h("div", { role: "rowgroup", class: "headgroup" }, this.head), this.space);
    this.append(this.viewport);
    this.watch = new ResizeObserver(() => this.#draw());
    this.watch.observe(this.viewport);
  }

  disconnectedCallback() {
    this.#isOver = true;
    this.watch.disconnect();
  }

  /** Begins anew, at the same place if `keepsPlace`. */
  async start({ keepsPlace = false } = {}) {
    const first = keepsPlace ? this.#first() : 0;
    this.#drawHead();
    this.#waiting.clear();
    const number = Math.floor(first / pageRows);
    const answer = await this.load(number * pageRows, pageRows);
    this.#pages = new Map([[number, answer.rows]]);
    this.#take(answer);
    if (!keepsPlace) this.viewport.scrollTop = 0;
    this.#draw();
    while (!this.#isComplete && !this.#isOver) {
      const next = await this.load(this.#count, 1);
      this.#take(next);
      if (this.#pages.get(0)?.length < Math.min(pageRows, this.#count)) this.#pages.delete(0);
      this.#draw();
    }
  }

  #take({ count, complete }) {
    this.#count = count;
    this.#isComplete = complete;
    this.viewport.setAttribute("aria-rowcount", complete ? count + 1 : -1);
    this.space.style.height = `${Math.min(count * rowHeight, heightMax)}px`;
    this.onprogress(count, complete);
  }

  #drawHead() {
    this.viewport.style.setProperty("--columns", this.columns.map((each) => `${each.width}px`).join(" "));
    this.viewport.style.setProperty("--width", `${this.columns.reduce((sum, each) => sum + each.width, 0)}px`);
    this.viewport.setAttribute("aria-colcount", this.columns.length);
    fill(this.head, this.columns.map((column, index) => {
      const isSorted = column.sort !== undefined && (this.order.sort === column.sort) && (column.sort !== "" || this.order.isDescending);
      const direction = isSorted ? (this.order.isDescending ? "descending" : "ascending") : "none";
      const content = column.sort === undefined ? h("span", {}, column.label) : h("button", {
        type: "button", class: "order", onclick: () => this.onorder(column.sort),
      }, h("span", {}, column.label), h("span", { class: "arrow", "aria-hidden": "true" }, isSorted ? (this.order.isDescending ? "↓" : "↑") : ""));
      return h("div", {
        role: "columnheader", class: `cell ${column.class ?? ""}`, "aria-colindex": index + 1,
        "aria-sort": column.sort === undefined ? null : direction, title: column.tip,
      }, content, column.more);
    }));
  }

  /** How far what is drawn is from where the scroll bar says, for tables beyond `heightMax`. */
  #scale() {
    const height = this.#count * rowHeight, seen = this.viewport.clientHeight;
    if (height <= heightMax) return 1;
    return (height - seen) / (heightMax - seen);
  }

  #first() { return Math.floor((this.viewport.scrollTop * this.#scale()) / rowHeight); }

  #draw() {
    if (this.#isOver || this.columns.length === 0) return;
    const top = this.viewport.scrollTop * this.#scale(), offset = this.viewport.scrollTop - top;
    const first = Math.max(0, Math.floor(top / rowHeight) - 4);
    const last = Math.min(this.#count, Math.ceil((top + this.viewport.clientHeight) / rowHeight) + 4);
    const wanted = last - first;
    while (this.#rows.length > wanted) this.#rows.pop().element.remove();
    while (this.#rows.length < wanted) {
      const element = h("div", { class: "row", role: "row" });
      this.space.append(element);
      this.#rows.push({ element, index: -1, row: undefined });
    }
    for (let index = first; index < last; index += 1) {
      const slot = this.#rows[index % wanted];
      const row = this.#row(index);
      slot.element.style.transform = `translateY(${index * rowHeight + offset}px)`;
      slot.element.classList.toggle("active", index === this.#active);
      if (slot.index === index && slot.row === row) continue;
      // Rows that are still to come look alike: while all flies by, nothing is drawn.
      const isDrawn = row !== undefined || slot.row !== undefined || slot.index < 0 || slot.columns !== this.columns;
      slot.index = index;
      slot.row = row;
      slot.element.setAttribute("aria-rowindex", index + 2);
      slot.element.classList.toggle("odd", index % 2 === 1);
      if (isDrawn) this.#drawRow(slot, row, index);
    }
    this.#fetchLater(first, last);
  }

  #drawRow(slot, row, index) {
    const { element } = slot;
    slot.columns = this.columns;
    element.onclick = row ? (event) => {
      if (event.target.closest("a, button") || getSelection().toString()) return;
      this.#active = index;
      this.open(row);
    } : null;
    fill(element, this.columns.map((column, position) => h("div", {
      class: `cell ${column.class ?? ""}`, role: position === 0 ? "rowheader" : "gridcell", "aria-colindex": position + 1,
    }, row ? column.cell(row) : h("span", { class: "pending" }))));
  }

  #row(index) { return this.#pages.get(Math.floor(index / pageRows))?.[index % pageRows]; }

  /** Fetches what is seen when scrolling pauses: nobody reads what flies by. */
  #fetchLater(first, last) {
    clearTimeout(this.timer);
    const missing = [];
    for (let page = Math.floor(first / pageRows); page <= Math.floor(Math.max(first, last - 1) / pageRows); page += 1) {
      if ((this.#pages.get(page)?.length ?? 0) < Math.min(pageRows, this.#count - page * pageRows) && !this.#waiting.has(page)) missing.push(page);
    }
    if (missing.length === 0) return;
    this.timer = setTimeout(async () => {
      for (const page of missing) {
        this.#waiting.add(page);
        try {
          // Of long rows an answer has fewer than were asked for.
          const known = this.#pages.get(page) ?? [];
          const answer = await this.load(page * pageRows + known.length, pageRows - known.length);
          this.#pages.set(page, known.concat(answer.rows));
          if (this.#pages.size > 60) this.#pages.delete(this.#pages.keys().next().value);
        } catch { /* It is asked for again when it is seen again. */ } finally { this.#waiting.delete(page); }
      }
      this.#draw();
    }, 40);
  }

  #move(event) {
    if (event.target.closest("a, button, summary, input")) return;
    const seen = Math.max(1, Math.floor(this.viewport.clientHeight / rowHeight) - 2);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: seen, PageUp: -seen, Home: -Infinity, End: Infinity };
    if (event.key === "Enter") {
      const row = this.#row(this.#active);
      if (row) this.open(row);
      return;
    }
    if (!(event.key in steps)) return;
    event.preventDefault();
    this.#active = Math.max(0, Math.min(this.#count - 1, this.#active + steps[event.key]));
    const top = this.#first(), bottom = top + seen;
    if (this.#active < top || this.#active >= bottom) {
      const wanted = this.#active < top ? this.#active : this.#active - seen + 1;
      this.viewport.scrollTop = (wanted * rowHeight) / this.#scale();
    }
    this.#draw();
  }

  /** The words below the table. */
  get summary() { return `${number(this.#count)}${this.#isComplete ? "" : " so far"}`; }
}

customElements.define("virtual-table", VirtualTable);
