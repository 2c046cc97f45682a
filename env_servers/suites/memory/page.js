// Memos: a home with five tiles; a list of memos that open one by one; a form, a cart, a flag and a shelf. Every page but
// home has one way out, one step back: list, form, cart, flag and shelf lead home, a memo leads to the list.
"use strict";

const BAR = 30; // css px
const sizes = { mobile: [128, 160], desktop: [160, 128], web: [160, 128] };

const leave = (state) => Object.assign(state, { screen: state.screen === "memo" ? "list" : "home", item: "", focus: false });
const visit = (screen) => (state) => Object.assign(state, { screen, focus: screen === "form" });
const look = (name) => (state) => {
  Object.assign(state, { screen: "memo", item: name });
  if (!state.seen.includes(name)) state.seen = [...state.seen, name].sort();
};

// Cells of a table that fills the page beside the bar: [x, y, w, h] each.
function cells(state, count, columns, area) {
  const [left, top, wide, tall] = area;
  const rows = Math.ceil(count / columns);
  return Array.from({ length: count }, (_, k) => [
    left + (k % columns) * (wide / columns),
    top + Math.floor(k / columns) * (tall / rows),
    wide / columns - 2,
    tall / rows - 2,
  ]);
}

function home(state, ui, theme, area) {
  cells(state, 5, state.device === "mobile" ? 2 : 3, area).forEach(([x, y, w, h], k) => {
    const name = state.layout.tiles[k];
    ui.icon(name, x + (w - 26) / 2, y + (h - 37) / 2, 26);
    ui.word(name, x + w / 2, y + (h - 37) / 2 + 35, 8.5);
    ui.target(name, x, y, w, h, { tap: visit(name) });
  });
}

function list(state, ui, theme, area) {
  cells(state, 4, 2, area).forEach(([x, y, w, h], k) => {
    const { name } = state.memos[k];
    card(ui, theme, x, y, w, h, false);
    ui.icon(name, x + (w - 24) / 2, y + (h - 34) / 2, 24);
    ui.word(name, x + w / 2, y + (h - 34) / 2 + 33, 9.5);
    if (!state.seen.includes(name)) ui.rect(x + w - 12, y + 5, 7, 7, CHOSEN, 3.5);
    ui.target(name, x, y, w, h, { [state.device === "desktop" ? "double" : "tap"]: look(name) });
  });
}

function memo(state, ui, theme, area) {
  const [left, top, wide, tall] = area;
  const shown = state.memos.find(({ name }) => name === state.item);
  card(ui, theme, left, top, wide - 2, tall - 2, false);
  ui.icon(shown.name, left + (wide - 28) / 2, top + 6, 28);
  ui.word(shown.name, left + wide / 2, top + 44, 10);
  const part = wide / 3;
  const y = top + 48 + (tall - 84) / 2;
  state.layout.order.forEach((kind, k) => {
    const x = left + k * part;
    if (kind === "number") ui.word(shown.number, x + part / 2, y + 23, 20, { weight: "bold" });
    else ui.icon(kind === "thing" ? shown.thing : `${shown.colour} chip`, x + (part - 26) / 2, y + 2, 26);
  });
}

function form(state, ui, theme, area) {
  const [left, top, wide, tall] = area;
  const [x, y] = [left + 14, top + tall / 2 - 18];
  ui.word("number", left + wide / 2, y - 8, 10);
  ui.rect(x, y, wide - 30, 36, "#ffffff", 6, state.focus ? CHOSEN : "#94a3b8", state.focus ? 2.5 : 1);
  if (state.number) ui.word(state.number, x + 8, y + 26, 20, { anchor: "start", weight: "bold" });
  if (state.focus) ui.rect(x + 9 + 13.5 * state.number.length, y + 7, 2, 22, CHOSEN);
  ui.target("box", x, y, wide - 30, 36, {
    tap(now) {
      Object.assign(now, { focus: true, number: "" });
      window.app.retype("");
    },
  });
}

function things(state, ui, theme, area, names, draw, tap) {
  cells(state, names.length, 2, area).forEach(([x, y, w, h], k) => {
    const name = names[k];
    card(ui, theme, x, y, w, h, draw(name, x, y, w, h));
    ui.icon(name, x + (w - 26) / 2, y + (h - 36) / 2, 26);
    ui.word(name, x + w / 2, y + (h - 36) / 2 + 35, 9.5);
    ui.target(name, x, y, w, h, { tap: tap(name) });
  });
}

const cart = (state, ui, theme, area) =>
  things(state, ui, theme, area, state.choices, (name) => state.pick === name, (name) => (now) => (now.pick = name));

function star(state, ui, theme, area) {
  things(state, ui, theme, area, state.shelf, () => false, (name) => (now) => {
    now.starred = now.starred.includes(name) ? now.starred.filter((other) => other !== name) : [...now.starred, name].sort();
  });
  cells(state, 4, 2, area).forEach(([x, y, w], k) => {
    if (state.starred.includes(state.shelf[k])) ui.icon("star", x + w - 16, y + 3, 13);
  });
}

function done(state, ui, theme, area) {
  const [left, top, wide, tall] = area;
  const middle = left + wide / 2;
  ui.rect(middle - 22, top + 4, 4, 42, "#475569", 1);
  ui.rect(middle - 18, top + 4, 44, 26, COLOURS[state.flag] || "#e2e8f0", 2, "#64748b", 1);
  const chips = Object.keys(COLOURS);
  const columns = state.device === "mobile" ? 2 : 4;
  cells(state, 4, columns, [left, top + 48, wide, tall - 50]).forEach(([x, y, w, h], k) => {
    const name = `${chips[k]} chip`;
    button(ui, name, x, y, w, h, 28, (now) => (now.flag = chips[k]));
  });
}

mount({
  render(state, ui) {
    const [width, height] = sizes[state.device];
    const { bar, dx, dy, theme: number, back } = state.layout;
    const theme = THEMES[number];
    const low = bar === "bottom";
    ui.rect(0, 0, width, height, theme.page);
    const area = [3 + dx, (low ? 2 : BAR + 3) + dy, width - 8, height - BAR - 9];
    ({ home, list, memo, form, cart, done, star })[state.screen](state, ui, theme, area);
    const y = low ? height - BAR : 0;
    ui.rect(0, y, width, BAR, theme.bar);
    ui.word(state.screen, width / 2, y + 19, 11, { weight: "bold" });
    if (state.screen !== "home" && back) button(ui, "back", 2, y, 34, BAR, 24, leave);
  },
  button(state, name) {
    if (name === "Back" && state.screen !== "home") leave(state);
  },
  key(state, combination) {
    if (combination === "escape" && state.screen !== "home") leave(state);
  },
  focused: (state) => state.focus,
  text: (state) => state.number,
  typed: (state, text) => (state.number = text.trim().slice(0, 4)),
  tools: {},
});
