// Drills: one scene a task, each for a few primitive actions. `state.scene` says which is drawn.
"use strict";

const sizes = { mobile: [128, 160], desktop: [160, 128], web: [160, 128] };
const ROWS = { mobile: 5, desktop: 4, web: 4 };
const COLUMNS = { mobile: 3, desktop: 4, web: 4 };
const ROW = 28; // css px
const COLUMN = 40;
const STEPS = 9; // of the slider: 0 to 8

const take = (state, name) => {
  state.things = state.things.filter((other) => other !== name);
  if (state.selected === name) state.selected = "";
  state.menu = "";
};
const whole = (pixels, size) => Math.sign(pixels) * Math.max(1, Math.round(Math.abs(pixels) / size));
const further = (state, rows) => {
  const shown = (state.scene === "list" ? ROWS : COLUMNS)[state.device];
  state.offset = Math.min(state.things.length - shown, Math.max(0, state.offset + rows));
};
// The wheel, or the finger that takes the page with it.
function move(state, dx, dy) {
  if (state.scene === "list" && Math.abs(dy) >= Math.abs(dx) && dy) further(state, whole(dy, ROW));
  if (state.scene === "strip" && Math.abs(dx) > Math.abs(dy)) further(state, whole(dx, COLUMN));
}
const glide = (state, dx, dy) => move(state, -dx, -dy);

function board(state, ui, theme, width, height) {
  const { dx, dy } = state.layout;
  const mobile = state.device === "mobile";
  const [wide, tall] = mobile ? [60, 56] : [38, 64];
  const places = [0, 1, 2, 3].map((k) => (mobile ? [2 + dx + (k % 2) * 61, 2 + dy + Math.floor(k / 2) * 57] : [2 + dx + k * 39, 2 + dy]));
  state.places.forEach((name, k) => {
    if (!state.things.includes(name)) return;
    const [x, y] = places[k];
    card(ui, theme, x, y, wide - 1, tall - 1, state.selected === name);
    ui.icon(name, x + (wide - 26) / 2, y + (tall - 40) / 2, 26);
    ui.word(name, x + wide / 2, y + tall - 7, 9);
    if (state.marked.includes(name)) ui.icon("check", x + wide - 16, y + 3, 12);
    const touch = {
      tap: (now) => (now.selected = name),
      hold: (now) => {
        if (now.scene === "board") now.menu = name;
        else now.marked = now.marked.includes(name) ? now.marked.filter((other) => other !== name) : [...now.marked, name].sort();
      },
      glide: (now, moved, down, end) => drop(now, name, end),
    };
    const mouse = {
      tap: (now) => (now.selected = name),
      double: (now) => (now.opened = name),
      context: (now) => (now.menu = name),
      middle: (now) => take(now, name),
      glide: (now, moved, down, end) => drop(now, name, end),
    };
    ui.target(name, x, y, wide - 1, tall - 1, mobile ? touch : mouse);
  });
  const [x, y] = mobile ? [44, 120] : [width / 2 - 20, 78 + dy / 2];
  ui.icon(`${state.folder} folder`, x, y, 36);
  if (state.inside.length) bubble(ui, state.inside.length, x + 32, y + 6);
  ui.target("folder", x, y, 38, 36);
  if (state.opened) ui.word(`${state.opened} is open`, width / 2, height - 4, 9);
  const tip = state.tips[state.pointer];
  if (tip && !mobile && !state.menu) {
    ui.rect(4, 80, 34, 24, "#1e293b", 4);
    ui.word(tip, 21, 97, 14, { fill: "#ffffff", weight: "bold" });
  }
  if (!state.menu) return;
  const left = width / 2 - 45;
  ui.rect(left, 30, 90, 44, "#ffffff", 6, "#475569", 1.5);
  ui.closed();
  button(ui, "trash", left + 4, 33, 40, 38, 28, (now) => take(now, now.menu));
  button(ui, "back", left + 46, 33, 40, 38, 28, (now) => (now.menu = ""));
}

const drop = (state, name, end) => {
  if (end !== "folder") return;
  take(state, name);
  state.inside = [...state.inside, name];
};

function list(state, ui, theme, width) {
  const shown = ROWS[state.device];
  const { dx, dy } = state.layout;
  state.things.slice(state.offset, state.offset + shown).forEach((name, k) => {
    const y = 2 + dy + k * ROW;
    card(ui, theme, 2 + dx, y, width - 16, ROW - 1, state.selected === name);
    ui.icon(name, 8 + dx, y + 2, 23);
    ui.word(name, 40 + dx, y + 18, 11, { anchor: "start" });
    ui.target(name, 2 + dx, y, width - 16, ROW - 1, { tap: (now) => (now.selected = name), glide });
  });
  const part = (shown * ROW) / state.things.length;
  ui.rect(width - 7, 3, 4, shown * ROW, theme.edge, 2);
  ui.rect(width - 7, 3 + state.offset * part, 4, shown * part, "#64748b", 2);
}

function strip(state, ui, theme, width) {
  const shown = COLUMNS[state.device];
  const { dx, dy } = state.layout;
  const y = 24 + dy;
  state.things.slice(state.offset, state.offset + shown).forEach((name, k) => {
    const x = dx / 2 + k * COLUMN;
    card(ui, theme, x, y, COLUMN - 2, 76, state.selected === name);
    ui.icon(name, x + 6, y + 16, 26);
    ui.word(name, x + COLUMN / 2 - 1, y + 66, 9);
    ui.target(name, x, y, COLUMN - 2, 76, { tap: (now) => (now.selected = name), glide });
  });
  const part = (width - 8) / state.things.length;
  ui.rect(4, y + 84, width - 8, 4, theme.edge, 2);
  ui.rect(4 + state.offset * part, y + 84, shown * part, 4, "#64748b", 2);
}

function slider(state, ui, theme, width, height) {
  const { dx, dy } = state.layout;
  const [left, y] = [10 + dx, height / 2 - 8 + dy];
  const step = (width - 24 - dx) / (STEPS - 1);
  ui.rect(left, y - 2, step * (STEPS - 1), 4, theme.edge, 2, "#94a3b8", 1);
  for (let k = 0; k < STEPS; k++) {
    ui.word(k, left + k * step, y + 26, 11);
    ui.target(`${k}`, left + (k - 0.5) * step, y - 12, step, 42, { tap: (now) => (now.value = k) });
  }
  const x = left + state.value * step;
  ui.rect(x - 7, y - 9, 14, 18, CHOSEN, 6);
  const set = (now, moved) => (now.value = Math.min(STEPS - 1, Math.max(0, Math.round(now.value + moved / step))));
  ui.target("knob", x - 7, y - 11, 14, 22, { glide: set });
}

function text(state, ui, theme, width, height) {
  const { dx, dy } = state.layout;
  const tall = (height - 12) / 4;
  const wide = (width - 8 - dx) / 3;
  const [from, to] = state.selection.length ? state.selection : [1, 0];
  state.words.forEach((name, k) => {
    const [x, y] = [4 + dx + (k % 3) * wide, 4 + dy + Math.floor(k / 3) * tall];
    if (k >= from && k <= to) ui.rect(x, y + 4, wide, tall - 8, "#bfdbfe");
    ui.word(name, x + 2, y + tall / 2 + 4, state.device === "mobile" ? 10 : 12, { anchor: "start" });
    const pick = (now) => (now.selection = [k, k]);
    const line = (now) => (now.selection = [k - (k % 3), k - (k % 3) + 2]);
    const range = (now, moved, down, end) => {
      const other = now.words.indexOf(end);
      if (other >= 0) now.selection = [Math.min(k, other), Math.max(k, other)];
    };
    const clear = (now) => (now.selection = []);
    const on = state.device === "mobile" ? { tap: clear, hold: pick } : { tap: clear, double: pick, triple: line, glide: range };
    ui.target(name, x, y, wide, tall, on);
  });
}

function keys(state, ui, theme, width, height) {
  card(ui, theme, 6, height / 2 - 24, width - 12, 48, false);
  const shown = state.pressed.length ? state.pressed[state.pressed.length - 1] : "press";
  ui.word(shown.replaceAll("+", " "), width / 2, height / 2 + 5, 14, { fill: state.pressed.length ? "#1e293b" : "#94a3b8" });
  ui.target("pad", 6, height / 2 - 24, width - 12, 48);
}

function cards(state, ui, theme, width, height) {
  const left = state.cards.slice(state.gone.length);
  if (!left.length) return ui.word("nothing here", width / 2, height / 2, 10, { fill: "#64748b" });
  const { dx, dy } = state.layout;
  left.slice(0, 3).reverse().forEach((name, k, all) => {
    const lift = 4 * (all.length - 1 - k);
    card(ui, theme, 16 + dx + lift, 24 + dy - lift, 88, 104, false);
  });
  ui.icon(left[0], 38 + dx, 46 + dy, 44);
  ui.word(left[0], 60 + dx, 114 + dy, 12);
  const away = (now, x, y) => {
    const way = Math.abs(x) > Math.abs(y) ? (x < 0 ? "left" : "right") : y < 0 ? "up" : "down";
    now.gone = [...now.gone, [left[0], way]];
  };
  ui.target(left[0], 16 + dx, 24 + dy, 88, 104, { glide: away });
}

mount({
  hover: true,
  render(state, ui) {
    const [width, height] = sizes[state.device];
    const theme = THEMES[state.layout.theme];
    ui.rect(0, 0, width, height, theme.page);
    ({ board, marks: board, list, strip, slider, text, keys, card: cards })[state.scene](state, ui, theme, width, height);
  },
  wheel: move,
  key(state, combination) {
    if (state.scene === "keys") state.pressed = [...state.pressed, combination];
    if (state.scene === "text" && combination === "ctrl+c" && state.selection.length) {
      state.clip = state.words.slice(state.selection[0], state.selection[1] + 1).join(" ");
    }
  },
  button(state, name) {
    if (state.scene === "keys") state.pressed = [...state.pressed, name];
  },
  tools: {},
});
