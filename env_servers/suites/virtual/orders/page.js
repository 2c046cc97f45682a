// Orders: a phone app of three tabs. list: things to open, star, mark or delete; form: order a thing; done: saved orders.
"use strict";

const SHOWN = 4; // things on one screen of the list
const MOST = 9; // largest amount of an order

const leave = (state) => {
  if (state.screen === "detail") state.item = "";
  state.order = "";
  state.screen = "list";
};
const go = (tab) => (state) => {
  state.item = "";
  state.order = "";
  state.screen = tab;
};
const toggle = (list, name) => {
  const at = list.indexOf(name);
  if (at < 0) list.push(name);
  else list.splice(at, 1);
  list.sort();
};
const forget = (state, name) => {
  for (const key of ["things", "starred", "marked"]) state[key] = state[key].filter((other) => other !== name);
  if (state.item === name) leave(state);
  if (state.things.length <= SHOWN) state.scroll = 0;
};
const save = (state, thing, amount) => {
  const known = state.orders.find(([name]) => name === thing);
  if (known) known[1] = Math.min(MOST, known[1] + amount);
  else state.orders.push([thing, amount]);
};

function tabs(state, ui, theme, y) {
  ui.rect(0, y, 128, 34, theme.bar);
  state.layout.tabs.forEach((name, k) => {
    const x = k * 42 + 1;
    const open = state.screen === name || (state.screen === "detail" && name === "list");
    if (open) ui.rect(x + 3, y + 1, 36, 32, "#ffffff", 6, CHOSEN, 1.5);
    ui.icon(name, x + 10, y + 2, 22);
    ui.word(name, x + 21, y + 31, 7.5);
    ui.target(name, x, y + 1, 42, 32, { tap: go(name) });
  });
}

function badges(state, ui, name, x, y) {
  if (state.starred.includes(name)) ui.icon("star", x, y, 12);
  if (state.marked.includes(name)) ui.icon("check", x, y + 14, 12);
}

function list(state, ui, theme, top) {
  const { columns, dx, dy } = state.layout;
  const first = state.scroll * Math.max(0, state.things.length - SHOWN);
  state.things.slice(first, first + SHOWN).forEach((name, k) => {
    const on = {
      tap: (now) => ((now.screen = "detail"), (now.item = name)),
      hold: (now) => toggle(now.marked, name),
    };
    if (columns === 1) {
      const y = top + dy + k * 29.5;
      card(ui, theme, 4 + dx, y, 110, 29, false);
      ui.icon(name, 10 + dx, y + 1.5, 26);
      ui.word(name, 42 + dx, y + 18.5, 11, { anchor: "start" });
      if (state.starred.includes(name)) ui.icon("star", 80 + dx, y + 7.5, 14);
      if (state.marked.includes(name)) ui.icon("check", 96 + dx, y + 7.5, 14);
      ui.target(name, 4 + dx, y, 110, 29, on);
    } else {
      const [x, y] = [3 + dx + (k % 2) * 58, top + dy + Math.floor(k / 2) * 59];
      card(ui, theme, x, y, 56, 57, false);
      ui.icon(name, x + 8, y + 7, 30);
      ui.word(name, x + 28, y + 51, 10);
      badges(state, ui, name, x + 41, y + 6);
      ui.target(name, x, y, 56, 57, on);
    }
  });
  if (state.things.length > SHOWN) {
    ui.rect(122, top + 2, 4, 118, theme.edge, 2);
    ui.rect(122, top + 2 + state.scroll * 52, 4, 66, "#64748b", 2);
  }
}

function detail(state, ui, theme, top) {
  const { dx, dy } = state.layout;
  card(ui, theme, 14 + dx, top + 4 + dy, 96, 68, false);
  ui.icon(state.item, 40 + dx, top + 8 + dy, 44);
  ui.word(state.item, 62 + dx, top + 66 + dy, 12);
  badges(state, ui, state.item, 92 + dx, top + 12 + dy);
  const names = state.layout.buttons.filter((name) => name !== "back" || state.layout.back);
  const act = {
    back: leave,
    star: (now) => toggle(now.starred, now.item),
    trash: (now) => forget(now, now.item),
  };
  const wide = 120 / names.length;
  names.forEach((name, k) => button(ui, name, 4 + k * wide, top + 80 + dy, wide, 34, 28, act[name]));
}

function form(state, ui, theme, top) {
  const { dx, dy } = state.layout;
  state.choices.forEach((name, k) => {
    const [x, y] = [3 + dx + k * 39, top + 3 + dy];
    card(ui, theme, x, y, 38, 38, state.form.pick === name);
    button(ui, name, x, y, 38, 38, 28, (now) => (now.form.pick = name));
  });
  const step = (by) => (now) => (now.form.amount = Math.min(MOST, Math.max(1, now.form.amount + by)));
  const [left, right] = state.layout.amount;
  const y = top + 46 + dy;
  button(ui, left, 4 + dx, y, 36, 34, 26, step(left === "plus" ? 1 : -1));
  ui.rect(44 + dx, y + 3, 32, 28, "#ffffff", 5, theme.edge, 1.5);
  ui.word(state.form.amount, 60 + dx, y + 25, 22, { weight: "bold" });
  button(ui, right, 80 + dx, y, 36, 34, 26, step(right === "plus" ? 1 : -1));
  button(ui, "check", 36 + dx, top + 84 + dy, 48, 34, 28, (now) => {
    if (!now.form.pick) return;
    save(now, now.form.pick, now.form.amount);
    now.form = { pick: "", amount: 2 };
    go("done")(now);
  });
}

function done(state, ui, theme, top) {
  const { dx, dy } = state.layout;
  state.orders.forEach(([name, amount], k) => {
    const [x, y] = [3 + dx + (k % 2) * 59, top + 2 + dy + Math.floor(k / 2) * 39];
    card(ui, theme, x, y, 57, 37, state.order === name);
    ui.icon(name, x + 5, y + 5.5, 26);
    ui.word(`x${amount}`, x + 44, y + 24, 14, { weight: "bold" });
    ui.target(name, x, y, 57, 37, { tap: (now) => (now.order = name) });
  });
  if (!state.orders.length) ui.word("nothing here", 62 + dx, top + 44, 10, { fill: "#64748b" });
  if (state.order) {
    const x = state.orders.length > 4 ? 80 : 44;
    button(ui, "trash", x + dx, top + 84 + dy, 36, 32, 26, (now) => {
      now.orders = now.orders.filter(([name]) => name !== now.order);
      now.order = "";
    });
  }
}

const number = (value) => {
  if (!Number.isInteger(value) || value < 1 || value > MOST) throw Error(`amount must be a whole number from 1 to ${MOST}`);
  return value;
};
const listed = (state, name) => {
  if (!state.things.includes(name)) throw Error(`the list has no ${name}`);
  return name;
};

mount({
  width: 128,
  height: 160,
  render(state, ui) {
    const theme = THEMES[state.layout.theme];
    const low = state.layout.bar === "bottom";
    const top = low ? 3 : 37;
    ui.rect(0, 0, 128, 160, theme.page);
    ({ list, detail, form, done })[state.screen](state, ui, theme, top);
    tabs(state, ui, theme, low ? 126 : 1);
  },
  swipe(state, direction) {
    if (state.screen === "list" && state.things.length > SHOWN) state.scroll = direction === "up" ? 1 : 0;
  },
  button(state, name) {
    if (name === "Back" || name === "Home") leave(state);
  },
  tools: {
    "orders.add_order"(state, { thing, amount }) {
      if (!state.choices.includes(thing)) throw Error(`the form has no ${thing}`);
      save(state, thing, number(amount));
      return { thing, amount: state.orders.find(([name]) => name === thing)[1] };
    },
    "orders.cancel_order"(state, { thing }) {
      if (!state.orders.some(([name]) => name === thing)) throw Error(`there is no order of ${thing}`);
      state.orders = state.orders.filter(([name]) => name !== thing);
      if (state.order === thing) state.order = "";
      return { thing };
    },
    "orders.set_mark"(state, { thing, marked }) {
      if (state.marked.includes(listed(state, thing)) !== Boolean(marked)) toggle(state.marked, thing);
      return { thing, marked: Boolean(marked) };
    },
  },
});
