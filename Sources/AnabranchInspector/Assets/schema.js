// The classes of a file as a diagram: boxes from left to right along the links between them.

import { h, link } from "./dom.js";
import { typeText } from "./values.js";

const [width, gap, rowHeight, headHeight, space] = [176, 84, 18, 26, 14];
/** With more classes that have links, a diagram says less than the table. */
const classesMax = 80;

/** Draws the classes that links lead from or to; nothing without any. */
export function diagram(classes, path, at) {
  const byName = new Map(classes.map((each) => [each.name, each]));
  const edges = classes.flatMap((each) => each.properties.filter((property) => byName.has(property.target)).map((property) => ({ from: each.name, to: property.target, property })));
  const names = classes.map((each) => each.name).filter((name) => edges.some((edge) => edge.from === name || edge.to === name));
  if (names.length === 0) return "";
  if (names.length > classesMax) return h("p", { class: "muted" }, `${names.length} classes have links: too many for a diagram.`);
  const boxes = place(names, edges), others = classes.length - names.length;
  const size = [Math.max(...[...boxes.values()].map((box) => box.x)) + width + gap / 2, Math.max(...[...boxes.values()].map((box) => box.y + box.height)) + 4];
  return h("figure", { class: "diagram" },
    h("div", { class: "scroll" }, h("svg", { viewBox: `-40 -4 ${size[0] + 40} ${size[1] + 8}`, width: size[0] + 40, height: size[1] + 8, role: "group", "aria-label": "Classes and the links between them" },
      edges.map((edge) => arrow(edge, boxes)), names.map((name) => drawn(byName.get(name), boxes.get(name), path, at)))),
    h("figcaption", { class: "muted" }, "A line leads from a property to the class it links to; it is dashed where objects are embedded.", others > 0 && ` ${others} ${others === 1 ? "class has" : "classes have"} no links.`));
}

/** A box for each class: in the column after those that link to it, near what it is linked with. */
function place(names, edges) {
  const links = new Map(names.map((name) => [name, edges.filter((edge) => edge.from === name)])), rank = new Map(), open = new Set();
  // The longest way from a class to the end; links back into the way that led there do not count.
  const depth = (name) => {
    if (rank.has(name)) return rank.get(name);
    open.add(name);
    const found = Math.max(0, ...links.get(name).filter((edge) => !open.has(edge.to)).map((edge) => depth(edge.to) + 1));
    open.delete(name);
    rank.set(name, found);
    return found;
  };
  names.forEach(depth);
  const last = Math.max(...rank.values()), columns = Array.from({ length: last + 1 }, () => []);
  for (const name of names) columns[last - rank.get(name)].push(name);
  const boxes = new Map();
  const stack = (column, index) => {
    let y = 0;
    for (const name of column) {
      const rows = [...new Set(links.get(name).map((edge) => edge.property.name))], height = headHeight + rows.length * rowHeight + (rows.length > 0 ? 6 : 0);
      boxes.set(name, { x: index * (width + gap), y, height, rows, column: index });
      y += height + space;
    }
  };
  columns.forEach(stack);
  for (let sweep = 0; sweep < 4; sweep += 1) {
    columns.forEach((column, index) => {
      const middle = new Map(column.map((name) => {
        const near = edges.flatMap((edge) => (edge.from === name ? [edge.to] : edge.to === name ? [edge.from] : [])).filter((other) => other !== name);
        const sum = near.reduce((total, other) => total + boxes.get(other).y + boxes.get(other).height / 2, 0);
        return [name, near.length > 0 ? sum / near.length : boxes.get(name).y];
      }));
      column.sort((left, right) => middle.get(left) - middle.get(right));
      stack(column, index);
    });
  }
  return boxes;
}

const short = (text, count) => ([...text].length > count ? `${[...text].slice(0, count - 1).join("")}…` : text);

function drawn(schema, box, path, at) {
  const isEmbedded = schema.kind === "embedded";
  const content = [h("title", {}, schema.name), h("rect", { x: box.x, y: box.y, width, height: box.height, rx: 5, class: isEmbedded ? "box embedded" : "box" }),
    h("text", { x: box.x + 10, y: box.y + 17, class: "name" }, short(schema.name, 22)),
    box.rows.map((name, index) => h("text", { x: box.x + 10, y: box.y + headHeight + index * rowHeight + 13, class: "row" }, short(`${name}: ${typeText(schema.properties.find((each) => each.name === name))}`, 26)))];
  return isEmbedded ? h("g", {}, content) : h("svg:a", { href: link("/objects", { path, class: schema.name, at }), "aria-label": `Objects of ${schema.name}` }, content);
}

function arrow(edge, boxes) {
  const from = boxes.get(edge.from), to = boxes.get(edge.to);
  const y = from.y + headHeight + from.rows.indexOf(edge.property.name) * rowHeight + 8, end = to.y + headHeight / 2;
  const goesOn = to.column > from.column, isSame = to.column === from.column;
  const start = goesOn || isSame ? from.x + width : from.x, target = goesOn ? to.x : to.x + width;
  const bend = goesOn ? Math.max(30, (target - start) / 2) : 36, direction = goesOn ? 1 : -1;
  const line = isSame ? `M${start} ${y}C${start + bend} ${y} ${target + bend} ${end} ${target} ${end}`
    : `M${start} ${y}C${start + bend * direction} ${y} ${target - bend * direction} ${end} ${target} ${end}`;
  return h("g", { class: edge.property.type === "object" ? "edge embedded" : "edge" }, h("title", {}, `${edge.from}.${edge.property.name} → ${edge.to}`),
    h("path", { d: line }), h("path", { d: `M${target - 7 * direction} ${end - 4}L${target} ${end}L${target - 7 * direction} ${end + 4}`, class: "head" }));
}
