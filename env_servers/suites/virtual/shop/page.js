// Shop: a web shop. Search by typing, filter by colour chips, a click on a card puts the thing into the cart;
// the cart page changes amounts of the chosen row and checks out.
"use strict";

const SHOWN = 3; // cards on one screen
const ROWS = 4; // different things a cart takes
const MOST = 9; // of one thing

const results = (state) =>
  state.catalogue.filter((name) => (!state.query || name === state.query) && (!state.colour || CLASS_OF[name] === state.colour));
const inCart = (state, name) => state.cart.find(([other]) => other === name);
const total = (cart) => cart.reduce((sum, [, amount]) => sum + amount, 0);
const add = (state, name, amount) => {
  const row = inCart(state, name);
  if (row) row[1] = Math.min(MOST, row[1] + amount);
  else if (state.cart.length < ROWS) state.cart.push([name, amount]);
  else return false;
  return true;
};
const drop = (state, name) => {
  state.cart = state.cart.filter(([other]) => other !== name);
  if (state.row === name) state.row = "";
};
const search = (state, text) => {
  Object.assign(state, { query: text.trim().toLowerCase(), text, colour: "", scroll: 0, focus: false });
};
const open = (state, page) => Object.assign(state, { page, row: "", focus: false });
const pay = (state) => {
  if (!state.cart.length) return;
  state.bought = state.cart;
  state.cart = [];
  open(state, "paid");
};

function header(state, ui, theme, y) {
  ui.rect(0, y, 160, 30, theme.bar);
  const spots = state.layout.header === "box" ? { box: 4, search: 88, cart: 122 } : { cart: 4, box: 42, search: 126 };
  const x = spots.box;
  ui.rect(x, y + 3, 80, 24, "#ffffff", 5, state.focus ? CHOSEN : "#94a3b8", state.focus ? 2.5 : 1);
  if (state.text) ui.word(state.text, x + 6, y + 19.5, 12, { anchor: "start" });
  else if (!state.focus) ui.word("search", x + 6, y + 19, 10, { anchor: "start", fill: "#94a3b8" });
  if (state.focus) ui.rect(x + 6 + 7.4 * state.text.length, y + 7, 1.5, 16, CHOSEN);
  ui.target("box", x, y + 2, 80, 26, {
    tap(now) {
      Object.assign(now, { focus: true, text: "" });
      window.app.retype("");
    },
  });
  button(ui, "search", spots.search, y + 2, 30, 26, 24, (now) => search(now, now.text));
  button(ui, "cart", spots.cart, y + 2, 32, 26, 24, (now) => open(now, "cart"));
  if (state.cart.length) bubble(ui, total(state.cart), spots.cart + 27, y + 7);
}

function shop(state, ui, theme) {
  const { dx, dy, bar, chips } = state.layout;
  const low = bar === "bottom";
  const top = low ? 2 : 32;
  const aside = chips === "left";
  state.chips.forEach((colour, k) => {
    const name = `${colour} chip`;
    const [x, y] = aside ? [4, top + 2 + k * 31] : [14 + dx + k * 46, top + dy];
    const [w, h] = aside ? [30, 30] : [40, 26];
    if (state.colour === colour) ui.rect(x + 1, y + 1, w - 2, h - 2, "#dbe8ff", 6, CHOSEN, 2.5);
    button(ui, name, x, y, w, h, 20, (now) => Object.assign(now, { colour: now.colour === colour ? "" : colour, query: "", text: "", scroll: 0, focus: false }));
  });
  const found = results(state);
  const [left, wide, y, tall] = aside ? [36, 39, top + 6 + dy, 76] : [4 + dx, 48, top + 31 + dy, 58];
  found.slice(state.scroll * SHOWN, state.scroll * SHOWN + SHOWN).forEach((name, k) => {
    const x = left + k * wide;
    card(ui, theme, x, y, wide - 2, tall, false);
    ui.icon(name, x + (wide - 32) / 2, y + (aside ? 16 : 8), 30);
    ui.word(name, x + wide / 2 - 1, y + tall - (aside ? 10 : 7), 9.5);
    const row = inCart(state, name);
    if (row) bubble(ui, row[1], x + wide - 10, y + 9);
    ui.target(name, x, y, wide - 2, tall, { tap: (now) => add(now, name, 1) });
  });
  if (!found.length) ui.word("no match", 92, y + 34, 11, { fill: "#64748b" });
  const pages = Math.ceil(found.length / SHOWN);
  if (pages > 1) {
    const part = 86 / pages;
    ui.rect(155, top + 3, 4, 86, theme.edge, 2);
    ui.rect(155, top + 3 + state.scroll * part, 4, part, "#64748b", 2);
  }
  header(state, ui, theme, low ? 97 : 1);
}

function cart(state, ui, theme) {
  const { dx, dy, bar, buttons } = state.layout;
  const low = bar === "bottom";
  const top = low ? 4 : 36;
  state.cart.forEach(([name, amount], k) => {
    const x = 3 + dx + k * 38;
    card(ui, theme, x, top + dy, 37, 48, state.row === name);
    ui.icon(name, x + 5.5, top + 4 + dy, 26);
    ui.word(`x${amount}`, x + 18.5, top + 43 + dy, 12, { weight: "bold" });
    ui.target(name, x, top + dy, 37, 48, { tap: (now) => (now.row = name) });
  });
  if (!state.cart.length) ui.word("nothing here", 80, top + 28, 10, { fill: "#64748b" });
  const step = (by) => (now) => {
    const row = inCart(now, now.row);
    if (!row) return;
    row[1] = Math.min(MOST, row[1] + by);
    if (row[1] < 1) drop(now, now.row);
  };
  const act = { minus: step(-1), plus: step(1), trash: (now) => drop(now, now.row) };
  buttons.forEach((name, k) => button(ui, name, 20 + dx + k * 40, top + 54 + dy, 36, 32, 26, act[name]));
  const y = low ? 97 : 1;
  ui.rect(0, y, 160, 30, theme.bar);
  button(ui, "back", 4, y + 1, 32, 28, 24, (now) => open(now, "shop"));
  ui.word("cart", 80, y + 20, 12, { weight: "bold" });
  button(ui, "check", 124, y + 1, 32, 28, 24, pay);
}

function paid(state, ui, theme) {
  const { dx, dy } = state.layout;
  ui.rect(20, 6 + dy, 120, 26, "#dcfce7", 8);
  ui.word("thank you", 80, 24 + dy, 13, { weight: "bold", fill: "#166534" });
  state.bought.forEach(([name, amount], k) => {
    ui.icon(name, 8 + dx + k * 38, 40 + dy, 24);
    ui.word(`x${amount}`, 20 + dx + k * 38, 77 + dy, 11, { weight: "bold" });
  });
  button(ui, "home", 60 + 2 * dx, 88, 40, 36, 28, (now) => open(now, "shop"));
}

const sold = (state, name) => {
  if (!state.catalogue.includes(name)) throw Error(`the shop has no ${name}`);
};

mount({
  width: 160,
  height: 128,
  render(state, ui) {
    const theme = THEMES[state.layout.theme];
    ui.rect(0, 0, 160, 128, theme.page);
    ({ shop, cart, paid })[state.page](state, ui, theme);
  },
  scroll(state, direction) {
    if (state.page !== "shop") return;
    const last = Math.max(0, Math.ceil(results(state).length / SHOWN) - 1);
    state.scroll = Math.min(last, Math.max(0, state.scroll + (direction === "down" ? 1 : -1)));
  },
  button(state, name) {
    if (name === "Back") open(state, "shop");
  },
  focused: (state) => state.focus,
  text: (state) => state.text,
  typed: (state, text) => (state.text = text.slice(0, 10)),
  key(state, combination) {
    if (combination === "enter" && state.focus) search(state, state.text);
  },
  tools: {
    "shop.add_to_cart"(state, { thing, amount }) {
      sold(state, thing);
      if (!Number.isInteger(amount) || amount < 1 || amount > MOST) throw Error(`amount must be a whole number from 1 to ${MOST}`);
      if (!add(state, thing, amount)) throw Error("the cart is full");
      return { thing, amount: inCart(state, thing)[1] };
    },
    "shop.remove_from_cart"(state, { thing }) {
      if (!inCart(state, thing)) throw Error(`the cart has no ${thing}`);
      drop(state, thing);
      return { thing };
    },
    "shop.checkout"(state) {
      if (!state.cart.length) throw Error("the cart is empty");
      pay(state);
      return { bought: total(state.bought) };
    },
  },
});
