/** The web page of the failure panel. It sets text content only: no string is interpreted as markup. */

import type { FailureDetail, Picture, Value } from "../protocol";
import { colour, format, type Palette, type Scale, scaleOf } from "./heat";
import type { ToHost, ToPage } from "./messages";

declare function acquireVsCodeApi(): { postMessage(message: ToHost): void };

const host = acquireVsCodeApi();
const main = document.getElementById("main") as HTMLElement;

window.addEventListener("message", (event: MessageEvent<ToPage>) => {
  main.replaceChildren(...(event.data.kind === "show" ? page(event.data.detail) : gone()));
});
host.postMessage({ kind: "ready" });

function gone(): Node[] {
  return [element("p", { text: "This case no longer fails, or is no longer stored." })];
}

function page(detail: FailureDetail): Node[] {
  return [
    element("h1", { text: `${detail.kernel}: ${detail.rule}` }),
    element("p", { className: "message", text: detail.message }),
    buttons(detail),
    ...(detail.picture ? [pictures(detail.picture)] : []),
    element("h2", { text: "First wrong elements" }),
    elements(detail),
    element("h2", { text: "Case" }),
    facts(detail),
    element("h2", { text: "Reproduce" }),
    element("pre", { className: "command", text: detail.commands.reproduce }),
    element("pre", { className: "command", text: detail.commands.why }),
  ];
}

function buttons(detail: FailureDetail): HTMLElement {
  const choices: [string, ToHost["kind"]][] = [
    ["Copy Reproduce Command", "copy"],
    ["Reproduce", "reproduce"],
    ...(detail.minimized ? [] : ([["Minimize", "minimize"]] as [string, ToHost["kind"]][])),
    ["Go to Line", "goToLine"],
  ];
  const bar = element("div", { className: "buttons" });
  for (const [title, kind] of choices) {
    const button = element("button", { text: title });
    button.addEventListener("click", () => host.postMessage({ kind }));
    bar.append(button);
  }
  return bar;
}

const MAP_HEIGHT = 260;

// ---- error map ---------------------------------------------------------------------------------------------------------

function pictures(picture: Picture): HTMLElement {
  const shared = scaleOf(picture.expected, picture.actual);
  const readout = element("p", { className: "readout", text: "Hover over a cell to see its values." });
  const maps = element("div", { className: "maps" });
  maps.append(
    map("Expected", picture, picture.expected, shared, "values", readout),
    map("Actual", picture, picture.actual, shared, "values", readout),
    map("Difference", picture, picture.difference, { ...scaleOf(picture.difference), low: 0 }, "difference", readout),
    map("Wrong", picture, picture.wrong, { low: 0, high: 1 }, "wrong", readout),
  );
  const box = element("section", {});
  const shape = picture.shape.join(" x ");
  const scaled = picture.shape.reduce((one, other) => one * other, 1) > picture.rows * picture.cols;
  const cells = scaled ? `; a cell represents several elements (${picture.rows} x ${picture.cols} cells)` : "";
  box.append(element("h2", { text: `Error map: ${picture.buffer}, ${shape}${cells}` }), maps, legend(), readout);
  return box;
}

function map(
  title: string,
  picture: Picture,
  grid: Value[][],
  scale: Scale,
  palette: Palette,
  readout: HTMLElement,
): HTMLElement {
  const canvas = document.createElement("canvas");
  canvas.width = picture.cols;
  canvas.height = picture.rows;
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `${title}, from ${format(scale.low)} to ${format(scale.high)}`);
  // Cells are square within limits: a picture of few rows or columns must remain visible.
  const ratio = Math.min(16, Math.max(1 / 8, picture.cols / picture.rows));
  canvas.style.aspectRatio = `${ratio}`;
  canvas.style.width = `min(100%, ${Math.max(24, MAP_HEIGHT * ratio)}px)`;
  draw(canvas, grid, scale, palette);
  canvas.addEventListener("mousemove", (event) => {
    const row = Math.min(picture.rows - 1, Math.floor((event.offsetY / canvas.clientHeight) * picture.rows));
    const col = Math.min(picture.cols - 1, Math.floor((event.offsetX / canvas.clientWidth) * picture.cols));
    const at = (values: Value[][]) => format(values[row]?.[col] ?? "NaN");
    readout.textContent =
      `[${row}, ${col}] expected ${at(picture.expected)}, actual ${at(picture.actual)}, ` +
      `difference ${at(picture.difference)}, wrong ${at(picture.wrong)}`;
  });
  const figure = element("figure", {});
  const range = palette === "wrong" ? "share of elements" : `${format(scale.low)} to ${format(scale.high)}`;
  figure.append(element("figcaption", { text: `${title} (${range})` }), canvas);
  return figure;
}

function draw(canvas: HTMLCanvasElement, grid: Value[][], scale: Scale, palette: Palette): void {
  const context = canvas.getContext("2d");
  if (!context) {
    return;
  }
  const image = context.createImageData(canvas.width, canvas.height);
  grid.forEach((row, y) => {
    row.forEach((value, x) => {
      image.data.set([...colour(value, scale, palette), 255], 4 * (y * canvas.width + x));
    });
  });
  context.putImageData(image, 0, 0);
}

function legend(): HTMLElement {
  const text = element("p", { className: "legend" });
  for (const [name, label] of [
    ["nan", "NaN"],
    ["positive", "+infinity"],
    ["negative", "-infinity"],
  ] as const) {
    text.append(element("span", { className: `swatch ${name}` }), ` ${label} `);
  }
  return text;
}

// ---- tables ------------------------------------------------------------------------------------------------------------

function elements(detail: FailureDetail): HTMLElement {
  const head = ["", "expected", "actual", "difference", "allowed"];
  const rows = detail.elements.map((each) => [
    `${each.buffer}[${each.index.join(", ")}]`,
    ...[each.expected, each.actual, each.difference, each.allowed].map((value) =>
      value === null ? "" : format(value),
    ),
  ]);
  return rows.length ? table(head, rows) : element("p", { text: "No element of the output was compared." });
}

function facts(detail: FailureDetail): HTMLElement {
  const smaller = detail.minimized;
  const sizes = Object.entries(smaller?.dims ?? {}).map(([name, size]) => `${name} = ${size}`);
  return table(undefined, [
    ...detail.facts,
    ["Compiled", detail.optimisation],
    ...(smaller ? [["Minimal case", `${sizes.join(", ")}: ${smaller.message}`]] : []),
  ]);
}

function table(head: string[] | undefined, rows: string[][]): HTMLTableElement {
  const result = document.createElement("table");
  if (head) {
    const row = result.createTHead().insertRow();
    row.append(...head.map((text) => element("th", { text })));
  }
  const body = result.createTBody();
  for (const cells of rows) {
    const row = body.insertRow();
    row.append(...cells.map((text, column) => element(column ? "td" : "th", { text })));
  }
  return result;
}

function element(tag: string, { className, text }: { className?: string; text?: string }): HTMLElement {
  const made = document.createElement(tag);
  if (className) {
    made.className = className;
  }
  if (text !== undefined) {
    made.textContent = text;
  }
  return made;
}
