// Sheet: a spreadsheet of a few sheets. jspreadsheet draws the grid and takes its input (selection, cell editor, keys);
// what the cells hold, look like and compute belongs to the state.
"use strict";

const COLS = 8, ROWS = 30;
const LETTERS = "ABCDEFGH";
const COLOURS = { yellow: "#fef08a", green: "#bbf7d0", red: "#fecaca", blue: "#bfdbfe" };
const LOOKS = ["bold", "italic", "currency", "percent"];
const ref = (x, y) => `${LETTERS[x]}${y + 1}`;
const place = (name) => {
  const hit = /^([A-H])([1-9]\d?)$/.exec(String(name).trim().toUpperCase());
  if (!hit || Number(hit[2]) > ROWS) throw Error(`there is no cell ${name}: cells are A1 to ${ref(COLS - 1, ROWS - 1)}`);
  return [LETTERS.indexOf(hit[1]), Number(hit[2]) - 1];
};
const theSheet = (state) => state.sheets[state.sheet];
const blank = () => ({ cells: Array(COLS).fill(""), looks: Array(COLS).fill("") });

// --- formulas ----------------------------------------------------------------------------------------------------------
const FUNCTIONS = {
  SUM: (all) => all.reduce((a, b) => a + b, 0),
  AVERAGE: (all) => all.reduce((a, b) => a + b, 0) / all.length,
  MIN: (all) => Math.min(...all),
  MAX: (all) => Math.max(...all),
  COUNT: (all) => all.length,
};
const number = (text) => (/^\s*-?\d+(\.\d+)?\s*$/.test(text) ? Number(text) : null);

// The value of a cell: a number, or a text; throws where a formula is wrong or goes round in a circle.
function value(rows, x, y, above = []) {
  const text = rows[y].cells[x];
  if (!text.startsWith("=")) return number(text) ?? text;
  if (above.includes(ref(x, y))) throw Error("#CIRCLE");
  const path = [...above, ref(x, y)];
  const at = (name) => value(rows, ...place(name), path);
  const marks = text.slice(1).toUpperCase().match(/[A-Z]+\d+|[A-Z]+|\d+(?:\.\d+)?|[-+*/():,]/g) ?? [];
  if (marks.join("") !== text.slice(1).toUpperCase().replaceAll(" ", "")) throw Error("#ERROR");
  let k = 0;
  const take = (mark) => (marks[k] === mark ? (k += 1) : 0);
  const must = (mark) => { if (!take(mark)) throw Error("#ERROR"); };
  const isCell = (mark) => /^[A-Z]\d+$/.test(mark ?? "");
  const given = () => {
    if (!isCell(marks[k]) || marks[k + 1] !== ":") return [sum()];
    const [[x0, y0], [x1, y1]] = [place(marks[k]), place(marks[k + 2])];
    k += 3;
    const found = [];
    for (let b = Math.min(y0, y1); b <= Math.max(y0, y1); b++) for (let a = Math.min(x0, x1); a <= Math.max(x0, x1); a++) found.push(value(rows, a, b, path));
    return found;
  };
  const atom = () => {
    if (take("-")) return -atom();
    if (take("(")) { const inner = sum(); must(")"); return inner; }
    const mark = marks[k++];
    if (isCell(mark)) { const held = at(mark); return held === "" ? 0 : held; }
    if (FUNCTIONS[mark]) {
      must("(");
      let all = given();
      while (take(",")) all = all.concat(given());
      must(")");
      return FUNCTIONS[mark](all.filter((one) => typeof one === "number"));
    }
    const plain = number(mark ?? "");
    if (plain === null) throw Error("#ERROR");
    return plain;
  };
  const product = () => { let left = atom(); for (;;) { if (take("*")) left *= atom(); else if (take("/")) left /= atom(); else return left; } };
  const sum = () => { let left = product(); for (;;) { if (take("+")) left += product(); else if (take("-")) left -= product(); else return left; } };
  const found = sum();
  if (k < marks.length || typeof found !== "number" || !Number.isFinite(found)) throw Error("#ERROR");
  return found;
}

function shown(rows, x, y) {
  try {
    const found = value(rows, x, y);
    if (typeof found !== "number") return found;
    const looks = rows[y].looks[x];
    const digits = (most, least = 0) => found.toLocaleString("en-US", { maximumFractionDigits: most, minimumFractionDigits: least, useGrouping: looks.includes("currency") });
    return looks.includes("currency") ? `€${digits(2, 2)}` : looks.includes("percent") ? `${Number((found * 100).toFixed(2))}%` : digits(2);
  } catch (error) {
    return error.message.startsWith("#") ? error.message : "#ERROR";
  }
}

// Cells that formulas name move with their row: `row` from 0, by +1 (inserted above) or -1 (deleted).
function moved(rows, row, by) {
  for (const { cells } of rows) {
    cells.forEach((text, x) => {
      if (text.startsWith("=")) cells[x] = text.replace(/([A-H])(\d+)/g, (all, column, line) => (Number(line) - 1 >= row + (by < 0) ? `${column}${Number(line) + by}` : all));
    });
  }
}

// --- what is done to the state ------------------------------------------------------------------------------------------
let kit, grid, input, shownState, shownRows;
const part = {};
const past = []; // states of the sheets before each change, for undo; it belongs to one episode
const keep = (state) => { past.push(JSON.stringify([state.sheets, state.sheet])); if (past.length > 50) past.shift(); };
const area = (state) => {
  const [x0, y0, x1, y1] = state.selection ?? [0, 0, -1, -1];
  const found = [];
  for (let y = y0; y <= y1; y++) for (let x = x0; x <= x1; x++) found.push([x, y]);
  return found;
};
const setCell = (state, x, y, text) => {
  text = String(text).slice(0, 80);
  if (theSheet(state).rows[y].cells[x] === text) return;
  keep(state);
  theSheet(state).rows[y].cells[x] = text;
};
const insertRow = (state, y) => { keep(state); const { rows } = theSheet(state); moved(rows, y, 1); rows.splice(y, 0, blank()); rows.length = ROWS; };
const deleteRow = (state, y) => { keep(state); const { rows } = theSheet(state); rows.splice(y, 1); rows.push(blank()); moved(rows, y, -1); };
const last = (rows) => { const empty = rows.findIndex(({ cells }, y) => y && !cells[0]); return empty < 0 ? ROWS : empty; };
const sort = (state, x, descending) => {
  keep(state);
  const { rows } = theSheet(state);
  const end = last(rows);
  const key = (row) => number(row.cells[x]) ?? row.cells[x].toLowerCase();
  const order = (a, b) => { const [m, n] = [key(a), key(b)]; return typeof m === typeof n ? (m < n ? -1 : m > n ? 1 : 0) : typeof m === "number" ? -1 : 1; };
  rows.splice(1, end - 1, ...rows.slice(1, end).sort((a, b) => (descending ? order(b, a) : order(a, b))));
};
const look = (state, cells, change) => { keep(state); const { rows } = theSheet(state); for (const [x, y] of cells) rows[y].looks[x] = change(rows[y].looks[x].split(" ").filter(Boolean)).sort().join(" "); };
const toggle = (state, cells, kind) => {
  const on = cells.every(([x, y]) => theSheet(state).rows[y].looks[x].split(" ").includes(kind));
  const other = { currency: "percent", percent: "currency" }[kind];
  look(state, cells, (held) => [...held.filter((one) => one !== kind && one !== other), ...(on ? [] : [kind])]);
};
const paint_ = (state, cells, colour) => look(state, cells, (held) => [...held.filter((one) => !COLOURS[one]), ...(colour ? [colour] : [])]);
const pick = (state, index) => Object.assign(closeDialog(state), { sheet: index, selection: null, bar: null, scroll: [0, 0] });
const undo = (state) => { if (past.length) [state.sheets, state.sheet] = JSON.parse(past.pop()); state.selection = null; };
const taken = (state, name) => !name || state.sheets.some((sheet) => sheet.name === name);
const clearArea = (state) => { const cells = area(state); if (!cells.length) return; keep(state); for (const [x, y] of cells) theSheet(state).rows[y].cells[x] = ""; };
const copyArea = (state) => { const [x0, y0, x1, y1] = state.selection; state.clip = theSheet(state).rows.slice(y0, y1 + 1).map(({ cells }) => cells.slice(x0, x1 + 1)); };
const paste = (state) => {
  if (!state.selection || !state.clip.length) return;
  keep(state);
  const [x0, y0] = state.selection;
  state.clip.forEach((line, b) => line.forEach((text, a) => { if (x0 + a < COLS && y0 + b < ROWS) theSheet(state).rows[y0 + b].cells[x0 + a] = text; }));
};

// --- the grid ----------------------------------------------------------------------------------------------------------
const column = {
  createCell: (td, held, x, y) => void (td.textContent = shown(theSheet(kit.now()).rows, x, y)),
  openEditor(td, held, x, y, sheet, options, event) {
    input = h("input", { value: event instanceof KeyboardEvent && event.key !== "F2" ? "" : theSheet(kit.now()).rows[y].cells[x], spellcheck: "false" });
    td.classList.add("editor");
    td.replaceChildren(input);
    input.focus();
    input.onblur = () => sheet.closeEditor(td, true);
  },
  closeEditor(td, save, x, y) {
    const text = input.value, owner = kit.now();
    input.onblur = null;
    input = null;
    queueMicrotask(() => kit.now() === owner && kit.change((now) => save && setCell(now, x, y, text))); // not into a later episode
    return theSheet(kit.now()).rows[y].cells[x];
  },
};

function draw(state) {
  const { rows } = theSheet(state);
  const now = JSON.stringify(rows);
  if (now !== shownRows || input === null) {
    shownRows = now;
    rows.forEach((row, y) => row.cells.forEach((text, x) => {
      const td = grid.records[y][x].element, looks = row.looks[x].split(" "), face = shown(rows, x, y);
      if (td.classList.contains("editor") && input) return;
      if (td.textContent !== face || td.firstElementChild) td.textContent = face;
      grid.options.data[y][x] = text;
      td.classList.toggle("bold", looks.includes("bold"));
      td.classList.toggle("italic", looks.includes("italic"));
      td.classList.toggle("figure", /^[-€\d#]/.test(face) && (number(text) !== null || text.startsWith("=")));
      td.style.backgroundColor = COLOURS[looks.find((one) => COLOURS[one])] ?? "";
    }));
  }
  const at = grid.selectedCell?.map(Number) ?? null;
  if (JSON.stringify(at) !== JSON.stringify(state.selection)) {
    if (state.selection) {
      jspreadsheet.current = grid;
      grid.updateSelectionFromCoords(...state.selection);
    } else grid.resetSelection();
  }
}

// Text may be typed or inserted with a cell selected and no editor open: a field nobody sees catches it.
function caught(event) {
  const text = event.target.value;
  event.target.value = "";
  if (!kit.now().selection || !text) return;
  type(kit.now(), text);
}
const type = ({ selection: [x, y] }, text) => {
  grid.openEditor(grid.records[y][x].element, true);
  input.value = text;
};
const listen = (state) => {
  if (input || state.focus || state.dialog.kind) return;
  if (state.selection) part.catcher.focus({ preventScroll: true });
  else part.catcher.blur();
};

// --- the rest of the window ---------------------------------------------------------------------------------------------
const act = (how) => () => kit.change((now) => { if (now.selection) how(now, area(now)); });
const DIALOGS = {
  rename: { title: "Rename the sheet", fields: ["name"], buttons: [["Cancel", closeDialog], ["Rename", (now) => { const name = now.dialog.name.trim(); if (!taken(now, name)) theSheet(now).name = name; closeDialog(now); }]] },
  add: { title: "New sheet", fields: ["name"], buttons: [["Cancel", closeDialog], ["Create", (now) => {
    const name = now.dialog.name.trim();
    if (taken(now, name)) return;
    now.sheets.push({ id: `s${Math.max(...now.sheets.map((one) => Number(one.id.slice(1)))) + 1}`, name, rows: Array.from({ length: ROWS }, blank) });
    pick(now, now.sheets.length - 1);
  }]] },
  delete: { title: "Delete the sheet?", buttons: [["Cancel", closeDialog], ["Delete", (now) => { if (now.sheets.length > 1) { now.sheets.splice(now.sheet, 1); pick(now, 0); } else closeDialog(now); }]] },
};

function topBar(state) {
  const [x, y] = state.selection ?? [];
  const looks = state.selection ? theSheet(state).rows[y].looks[x].split(" ") : [];
  const groups = {
    letters: [tool("bold", h("b", {}, "B"), act((now, cells) => toggle(now, cells, "bold")), looks.includes("bold")), tool("italic", h("i", {}, "I"), act((now, cells) => toggle(now, cells, "italic")), looks.includes("italic"))],
    figures: [tool("currency", "€", act((now, cells) => toggle(now, cells, "currency")), looks.includes("currency")), tool("percent", "%", act((now, cells) => toggle(now, cells, "percent")), looks.includes("percent"))],
    sorting: [tool("sort ascending", "ascending", act((now) => sort(now, now.selection[0], false))), tool("sort descending", "descending", act((now) => sort(now, now.selection[0], true)))],
    fill: [h("div", { class: "menu" }, tool("fill colour", "fill", () => kit.change((now) => (now.menu = now.menu === "fill" ? "" : "fill")), state.menu === "fill"),
      state.menu === "fill" && h("div", { class: "drop swatches" }, [...Object.keys(COLOURS), "no fill"].map((name) =>
        h("button", { name: name === "no fill" ? name : `${name} fill`, class: "entry", onmousedown: still, onclick: act((now, cells) => { now.menu = ""; paint_(now, cells, COLOURS[name] && name); }) }, h("span", { class: "dot", style: `background: ${COLOURS[name] ?? "#ffffff"}` }), name[0].toUpperCase() + name.slice(1)))))],
  };
  const active = (how) => (now) => now.selection && how(now, now.selection);
  return [
    h("div", { class: "title" }, h("span", { class: "logo" }, glyph("sum", 18)), h("b", {}, state.book), h("span", { class: "space" }), h("small", {}, `${state.sheets.length} sheets`)),
    menuBar(state, kit.change, {
      Edit: [["Undo", undo], ["Clear cells", (now) => clearArea(now)]],
      Insert: [["Row above", active((now, [, b]) => insertRow(now, b))], ["Sheet…", (now) => openDialog(now, "add", { name: "" })]],
      Data: [["Sort smallest first", active((now, [a]) => sort(now, a, false))], ["Sort largest first", active((now, [a]) => sort(now, a, true))]],
    }),
    h("div", { class: "tools" }, tool("undo", "undo", () => kit.change(undo)), state.layout.tools.flatMap((group) => [h("span", { class: "gap" }), ...groups[group]])),
    h("div", { class: "bar" }, h("span", { class: "where" }, state.selection ? ref(x, y) : ""), h("i", {}, "fx"),
      h("input", { name: "formula bar", spellcheck: "false", autocomplete: "off", value: state.bar ?? (state.selection ? theSheet(state).rows[y].cells[x] : ""),
        oninput: (event) => (kit.now().bar = event.target.value),
        onkeydown: (event) => { if (event.key === "Enter") kit.change((now) => { if (now.selection && now.bar !== null) setCell(now, ...now.selection.slice(0, 2), now.bar); Object.assign(now, { bar: null, focus: "" }); }); } })),
  ];
}

function tabs(state) {
  return [
    h("button", { name: "new sheet", class: "tool", onclick: () => kit.change((now) => openDialog(now, "add", { name: "" })) }, glyph("plus", 16)),
    ...state.sheets.map((sheet, k) => h("button", { name: `sheet ${sheet.name}`, class: k === state.sheet ? "tab on" : "tab",
      onclick: () => kit.now().sheet !== k && kit.change((now) => pick(now, k)),
      ondblclick: () => kit.change((now) => openDialog(now, "rename", { name: theSheet(now).name })),
      oncontextmenu: (event) => kit.change((now) => { if (now.sheet !== k) pick(now, k); Object.assign(now, { menu: "tab", at: [event.clientX, event.clientY] }); }) }, sheet.name)),
  ];
}

function overlay(state) {
  if (state.menu === "tab") return contextMenu(kit.change, state.at, [["Rename sheet…", (now) => openDialog(now, "rename", { name: theSheet(now).name })], ["Delete sheet…", (now) => openDialog(now, "delete")]]);
  if (state.menu === "cell") {
    const [x, y] = state.selection;
    return contextMenu(kit.change, state.at, [
      ["Insert row above", (now) => insertRow(now, y)], ["Insert row below", (now) => insertRow(now, y + 1)], ["Delete row", (now) => deleteRow(now, y)],
      ["Copy", copyArea], ["Paste", paste], ["Clear", clearArea],
      ["Sort A to Z", (now) => sort(now, x, false)], ["Sort Z to A", (now) => sort(now, x, true)]]);
  }
  const kind = state.dialog.kind;
  if (!kind) return "";
  return dialogBox(kit, state, { ...DIALOGS[kind], text: kind === "delete" ? `“${theSheet(state).name}” and all its cells will be gone.` : "" });
}

function show(state) {
  paint(state);
  const anew = state !== shownState;
  shownState = state;
  if (anew) {
    past.length = 0;
    if (grid.edition) grid.closeEditor(grid.edition[0], false);
    jspreadsheet.current = grid;
  }
  document.body.dataset.tabs = state.layout.tabs;
  part.page.style.setProperty("--wide", `${state.layout.wide}px`);
  if (state.edit === null || anew) draw(state);
  part.top.replaceChildren(...topBar(state));
  part.tabs.replaceChildren(...tabs(state));
  part.over.replaceChildren(overlay(state));
  if (anew) [part.page.scrollLeft, part.page.scrollTop] = state.scroll;
  showFocus(state);
  listen(state);
  if (anew && state.edit !== null && state.selection) type(state, state.edit);
}

function read(state) {
  state.selection = grid.selectedCell ? grid.selectedCell.map(Number) : null;
  state.edit = input ? input.value : null;
  state.scroll = [Math.round(part.page.scrollLeft), Math.round(part.page.scrollTop)];
  readFocus(state);
}

function targets(state, seen) {
  const box = (node) => { const { left, top, right, bottom } = node.getBoundingClientRect(); return seen([left, top, right, bottom], part.page); };
  const within = (node, name) => ({ name, box: box(node), node });
  const all = [...grid.headers.map((node, x) => within(node, `column ${LETTERS[x]}`)), ...grid.rows.map((row, y) => within(row.element.firstElementChild, `row ${y + 1}`)),
    ...grid.records.flatMap((row, y) => row.map((cell, x) => within(cell.element, `cell ${ref(x, y)}`)))];
  return all.filter(({ box: at, node }) => at && at[3] - at[1] >= 14 && at[2] - at[0] >= 20 && node.contains(document.elementFromPoint((at[0] + at[2]) / 2, (at[1] + at[3]) / 2))).map(({ name, box: at }) => ({ name, box: at }));
}

function start(root) {
  part.top = h("div", { class: "top" });
  part.page = h("div", { class: "page", name: "grid" });
  part.tabs = h("div", { class: "tabs" });
  part.over = h("div");
  part.catcher = h("textarea", { class: "catcher", oninput: caught, tabindex: "-1" });
  root.append(part.top, part.page, part.tabs, part.over, part.catcher);
  const host = h("div");
  part.page.append(host);
  const empty = Array.from({ length: ROWS }, () => Array(COLS).fill(""));
  kit = { now: () => ({ sheet: 0, sheets: [{ rows: Array.from({ length: ROWS }, blank) }] }) }; // until the page has a state
  [grid] = jspreadsheet(host, {
    root: part.page, contextMenu: () => null, about: false, parseFormulas: false, toolbar: false,
    worksheets: [{ data: empty, minDimensions: [COLS, ROWS], columns: Array.from(LETTERS, (title) => ({ type: column, title, width: 110 })),
      columnDrag: false, rowDrag: false, columnResize: false, rowResize: false, allowRenameColumn: false, allowInsertRow: false, allowInsertColumn: false,
      allowManualInsertRow: false, allowManualInsertColumn: false, allowDeleteRow: false, allowDeleteColumn: false, selectionCopy: false, columnSorting: false, defaultRowHeight: 26 }],
    onselection: (sheet, x0, y0, x1, y1) => {
      if (!window.app || sheet !== grid) return;
      const now = kit.now();
      now.selection = [x0, y0, x1, y1].map(Number);
      now.bar = null;
      queueMicrotask(() => { part.top.replaceChildren(...topBar(now)); listen(now); });
    },
  });
  part.page.addEventListener("contextmenu", (event) => {
    if (!event.target.closest("td")) return;
    queueMicrotask(() => { read(kit.now()); kit.change((now) => now.selection && Object.assign(now, { menu: "cell", at: [event.clientX, event.clientY] })); });
  });
  document.addEventListener("mousedown", (event) => {
    if (kit.now().menu && !event.target.closest(".drop, .menu")) kit.change((now) => (now.menu = ""));
  }, true);
  for (const node of [part.top, part.over]) node.addEventListener("keydown", (event) => event.key !== "Escape" && event.stopPropagation());
  document.addEventListener("keydown", (event) => {
    const now = kit.now(), key = event.key.toLowerCase();
    if (key === "escape" && (now.menu || now.dialog.kind)) { event.stopPropagation(); return kit.change(closeDialog); }
    if (input || event.target.matches("input") || now.dialog.kind) return;
    read(now);
    const does = event.ctrlKey ? { c: copyArea, x: (state) => { copyArea(state); clearArea(state); }, v: paste, z: undo }[key] : ["delete", "backspace"].includes(key) ? clearArea : null;
    if (event.ctrlKey || does) { event.preventDefault(); event.stopPropagation(); }
    if (does && (now.selection || does === undo)) kit.change(does);
  }, true);
}

const by = (state, name) => {
  const sheet = state.sheets.find((one) => one.name === name);
  if (!sheet) throw Error(`there is no sheet ${name}`);
  return sheet;
};
const at = (state, name, how) => { const index = state.sheets.indexOf(by(state, name)), open = state.sheet; state.sheet = index; try { return how(); } finally { state.sheet = open; } };
const columnOf = (name) => place(`${name}1`)[0];
kit = mount({ start, show, read, elements: targets, tools: {
  "sheet.set_cell"(state, { sheet, cell, text }) {
    const [x, y] = place(cell);
    if (typeof text !== "string") throw Error("text must be a text");
    at(state, sheet, () => setCell(state, x, y, text));
    return { cell, shown: shown(by(state, sheet).rows, x, y) };
  },
  "sheet.sort"(state, { sheet, column: name, descending }) {
    const x = columnOf(name);
    at(state, sheet, () => sort(state, x, descending === true));
    return { sheet };
  },
  "sheet.format"(state, { sheet, cells, look: kind }) {
    const [from, to = from] = String(cells).split(":");
    const [[x0, y0], [x1, y1]] = [place(from), place(to)];
    if (!LOOKS.includes(kind) && !COLOURS[kind]) throw Error(`look must be one of ${[...LOOKS, ...Object.keys(COLOURS)].join(", ")}`);
    const all = [];
    for (let y = y0; y <= y1; y++) for (let x = x0; x <= x1; x++) all.push([x, y]);
    at(state, sheet, () => (COLOURS[kind] ? paint_(state, all, kind) : look(state, all, (held) => [...new Set([...held, kind])])));
    return { cells };
  },
  "sheet.rename_sheet"(state, { sheet, name }) {
    const one = by(state, sheet);
    if (typeof name !== "string" || taken(state, name.trim())) throw Error("name must be a text that no sheet has yet");
    one.name = name.trim();
    return { name: one.name };
  },
  "sheet.read_cells"(state, { sheet }) {
    const { rows } = by(state, sheet);
    return { rows: rows.filter(({ cells }) => cells.some(Boolean)).map((row) => row.cells.map((text, x) => shown(rows, x, rows.indexOf(row)))) };
  },
} });
