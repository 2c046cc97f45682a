// Files: a desktop file manager. Things and coloured folders; a folder opens on a double click, a thing moves by dragging,
// the right button opens a menu (copy, star, trash); delete, backspace, enter, ctrl+c and ctrl+v do what they always do.
"use strict";

const ROOM = 8; // entries that fit into one place
const folderOf = (name) => (name.endsWith(" folder") ? name.slice(0, -" folder".length) : "");
const inside = (state, place) => (place ? state.folders[place] : state.root);
const entries = (state) => {
  const folders = state.place ? [] : state.order.map((colour) => `${colour} folder`);
  const things = inside(state, state.place);
  return state.layout.folders === "first" ? [...folders, ...things] : [...things, ...folders];
};
const full = (state, place) => inside(state, place).length + (place ? 0 : state.order.length) >= ROOM;

const enter = (state, place) => {
  state.place = place;
  state.selected = "";
  state.menu = "";
};
const put = (state, place, thing) => {
  if (full(state, place) || inside(state, place).includes(thing)) return false;
  inside(state, place).push(thing);
  return true;
};
const take = (state, place, thing) => {
  const list = inside(state, place);
  list.splice(list.indexOf(thing), 1);
  if (state.selected === thing) state.selected = "";
};
const paste = (state) => state.clip && put(state, state.place, state.clip);
const remove = (state, thing) => {
  if (!thing || folderOf(thing)) return;
  take(state, state.place, thing);
  const anywhere = [state.root, ...Object.values(state.folders)].some((list) => list.includes(thing));
  if (!anywhere) state.starred = state.starred.filter((name) => name !== thing);
};
const star = (state, thing) => {
  state.starred = state.starred.includes(thing) ? state.starred.filter((name) => name !== thing) : [...state.starred, thing].sort();
};

const actions = {
  copy: (state) => (state.clip = state.menu),
  star: (state) => star(state, state.menu),
  trash: (state) => remove(state, state.menu),
};

function bar(state, ui, theme, y) {
  ui.rect(0, y, 160, 28, theme.bar);
  const view = state.view === "grid" ? "list" : "grid";
  if (state.place) {
    button(ui, "back", 4, y + 2, 26, 24, 22, (now) => enter(now, ""), {
      drop: (now, thing) => !folderOf(thing) && put(now, "", thing) && take(now, now.place, thing),
    });
    ui.icon(`${state.place} folder`, 68, y + 5, 18);
  } else ui.word("files", 78, y + 18, 11, { weight: "bold" });
  if (state.clip) button(ui, "paste", 100, y + 2, 26, 24, 22, paste);
  button(ui, view, 130, y + 2, 26, 24, 22, (now) => (now.view = view));
}

function entry(state, ui, theme, name, x, y, w, h) {
  const folder = folderOf(name);
  const chosen = state.selected === name;
  const grid = state.view === "grid";
  if (chosen || !folder) card(ui, theme, x, y, w, h, chosen);
  if (grid) {
    ui.icon(name, x + (w - 28) / 2, y + 2.5, 28);
    ui.word(folder || name, x + w / 2, y + h - 4.5, 8);
  } else {
    ui.icon(name, x + 4, y + (h - 21) / 2, 21);
    ui.word(folder || name, x + 30, y + h / 2 + 3.5, 9.5, { anchor: "start" });
  }
  if (state.starred.includes(name)) ui.icon("star", grid ? x + w - 12 : x + w - 13, grid ? y + 1 : y + h / 2 - 5.5, 11);
  const on = {
    tap: (now) => (now.selected = name),
    double: (now) => folder && enter(now, folder),
    context: (now) => {
      now.selected = name;
      if (!folder) now.menu = name;
    },
    drag: !folder,
  };
  if (folder) {
    on.drop = (now, thing) => {
      if (put(now, folder, thing)) take(now, now.place, thing);
    };
  }
  ui.target(name, x, y, w, h, on);
  return { x, y, w, h };
}

function popup(state, ui, at) {
  const [w, h] = [94, 34];
  const x = Math.min(160 - w - 3, Math.max(3, at.x + at.w / 2 - w / 2));
  const y = at.y + 30 + h < 126 ? at.y + 30 : at.y - h + 4;
  ui.closed();
  ui.rect(x, y, w, h, "#ffffff", 6, "#334155", 1.5);
  state.layout.menu.forEach((name, k) => {
    button(ui, name, x + 2 + k * 30, y + 2, 30, 30, 24, (now) => {
      actions[name](now);
      now.menu = "";
    });
  });
}

const has = (state, place, name) => {
  if (place && !Object.hasOwn(state.folders, place)) throw Error(`there is no ${place} folder`);
  if (!inside(state, place).includes(name)) throw Error(place ? `the ${place} folder has no ${name}` : `there is no ${name}`);
};

mount({
  width: 160,
  height: 128,
  hover: true,
  render(state, ui) {
    const theme = THEMES[state.layout.theme];
    const low = state.layout.bar === "bottom";
    const top = low ? 2 : 30;
    const { dx, dy } = state.layout;
    ui.rect(0, 0, 160, 128, theme.page);
    bar(state, ui, theme, low ? 99 : 1);
    let at = null;
    entries(state).forEach((name, k) => {
      const [x, y, w, h] = state.view === "grid"
        ? [2 + dx + (k % 4) * 38.5, top + dy + Math.floor(k / 4) * 46, 37, 44]
        : [2 + dx + Math.floor(k / 4) * 77, top + dy / 2 + (k % 4) * 23.5, 75, 23];
      const place = entry(state, ui, theme, name, x, y, w, h);
      if (name === state.menu) at = place;
    });
    if (!entries(state).length) ui.word("empty", 80, top + 50, 10, { fill: "#64748b" });
    if (at) popup(state, ui, at);
  },
  outside(state, kind) {
    if (kind !== "tap" && kind !== "context") return;
    state.menu = "";
    state.selected = "";
  },
  key(state, combination) {
    if (combination === "escape") state.menu = "";
    if (state.menu) return;
    if (combination === "delete") remove(state, state.selected);
    if (combination === "backspace") enter(state, "");
    if (combination === "enter" && folderOf(state.selected)) enter(state, folderOf(state.selected));
    if (combination === "ctrl+c" && state.selected && !folderOf(state.selected)) state.clip = state.selected;
    if (combination === "ctrl+v") paste(state);
  },
  tools: {
    "files.copy_file"(state, { name, folder }) {
      has(state, "", name);
      if (!Object.hasOwn(state.folders, folder)) throw Error(`there is no ${folder} folder`);
      if (!put(state, folder, name)) throw Error(`the ${folder} folder takes no ${name}`);
      return { name, folder };
    },
    "files.delete_file"(state, { name, folder = "" }) {
      has(state, folder, name);
      const place = state.place;
      state.place = folder;
      remove(state, name);
      state.place = place;
      if (state.menu === name) state.menu = "";
      return { name };
    },
    "files.star_file"(state, { name }) {
      has(state, "", name);
      if (!state.starred.includes(name)) star(state, name);
      return { name };
    },
  },
});
