// The history as a river: the log flows upwards, and the arm of each version leaves it at the version that its client
// had seen and joins it again where it was integrated.

import { h } from "./dom.js";

export const rowHeight = 46;
const [trunk, lane, lanesMax] = [14, 13, 7];

/** The colour of a client's arms, 0 to 7; the server has none. */
export const hue = (client) => (client === 0 ? "server" : `hue${Number(BigInt(client) % 8n)}`);

/** Chooses a lane for each arm, so that those that flow side by side do not meet. */
export function lanes(versions) {
  const taken = [];
  return versions.map((version, row) => {
    const rows = version.base === null ? 1 : version.version - version.base;
    if (version.client === 0 || rows <= 1) return { row, rows: 1, lane: 0 };
    const end = row + rows;
    let free = 0;
    while (free < lanesMax - 1 && (taken[free] ?? -1) > row) free += 1;
    taken[free] = Math.max(taken[free] ?? 0, end);
    return { row, rows, lane: free + 1 };
  });
}

export function river(versions, onpoint) {
  const height = versions.length * rowHeight, arms = lanes(versions);
  const width = trunk + lane * Math.max(1, ...arms.map((arm) => arm.lane)) + 10;
  const y = (row) => (row + 0.5) * rowHeight;
  const picture = h("svg", {
    class: "river", width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true",
  }, h("path", { class: "trunk", d: `M${trunk} 0V${height}` }),
  arms.map((arm, index) => arm.lane > 0 && h("path", {
    class: `arm ${hue(versions[index].client)}`, "data-row": index, d: curve(arm, y, height),
  })),
  versions.map((version, index) => (version.client === 0
    ? h("rect", { class: "joint server", x: trunk - 4, y: y(index) - 4, width: 8, height: 8, rx: 1 })
    : h("circle", { class: `joint ${hue(version.client)}${version.merged ? " merged" : ""}`, cx: trunk, cy: y(index), r: version.merged ? 5.5 : 4 }))));
  picture.addEventListener("pointerover", (event) => onpoint(event.target.dataset.row));
  return picture;
}

function curve(arm, y, height) {
  const out = trunk + arm.lane * lane, top = y(arm.row), bottom = Math.min(y(arm.row + arm.rows), height);
  const bend = rowHeight * 0.8, isCut = y(arm.row + arm.rows) > height;
  const rise = `M${trunk} ${top}C${out} ${top + bend * 0.2} ${out} ${top + bend * 0.4} ${out} ${top + bend}`;
  if (isCut) return `${rise}V${height}`;
  return `${rise}V${Math.max(top + bend, bottom - bend)}C${out} ${bottom - bend * 0.4} ${out} ${bottom - bend * 0.2} ${trunk} ${bottom}`;
}

/** The number of versions of others that a version had not seen; null if that is not known. */
export const unseen = (version) => (version.base === null || version.client === 0 ? null : version.version - version.base - 1);


const [wholeWidth, wholeHeight, middle] = [1000, 96, 62];

/** The whole history: as wide as its bytes, with an arm for the last version of each part; a click shows the versions. */
export function wholeRiver({ base_version: base, version: end, step, parts }, shown, onchoose) {
  const x = (version) => ((version - base) / Math.max(1, end - base)) * wholeWidth;
  const most = Math.max(1, ...parts.map((part) => part.bytes));
  const bank = (side) => parts.map((part) => `${x(part.version).toFixed(1)} ${(middle + side * (1.5 + (24 * part.bytes) / most)).toFixed(1)}`);
  const arms = parts.filter((part) => part.client !== 0 && part.base !== null && x(part.version) - x(part.base) > 2);
  const picture = h("svg", { viewBox: `0 0 ${wholeWidth} ${wholeHeight}`, preserveAspectRatio: "none", class: "whole", "aria-hidden": "true" },
    shown.length > 0 && h("rect", { class: "shown", x: x(shown.at(-1).version) - 1, width: Math.max(3, x(shown[0].version) - x(shown.at(-1).version)), y: 0, height: wholeHeight }),
    arms.map((part) => {
      const [from, to] = [Math.max(0, x(part.base)), x(part.version)], high = middle - 14 - Math.min(44, (to - from) / 4);
      return h("path", { class: `arm ${hue(part.client)}`, d: `M${from.toFixed(1)} ${middle}C${from.toFixed(1)} ${high.toFixed(1)} ${to.toFixed(1)} ${high.toFixed(1)} ${to.toFixed(1)} ${middle}` });
    }),
    h("path", { class: "water", d: `M0 ${middle - 1.5}L${bank(-1).join("L")}L${bank(1).reverse().join("L")}L0 ${middle + 1.5}Z` }));
  picture.addEventListener("click", (event) => {
    const box = picture.getBoundingClientRect(), part = (event.clientX - box.left) / box.width;
    onchoose(Math.min(end, Math.max(base + 1, Math.ceil((base + part * (end - base)) / step) * step)));
  });
  // The picture is for the eye and the mouse; the same is reached with the slider by the keyboard.
  const slider = h("input", { type: "range", min: base + 1, max: end, value: shown[0]?.version ?? end, "aria-label": "Versions that are shown: up to", onchange: () => onchoose(Number(slider.value)) });
  return h("div", { class: "wholeriver" }, picture, slider);
}
