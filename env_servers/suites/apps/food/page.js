// Food delivery: restaurants with menus, dishes with sizes and extras, a cart, a checkout, orders and their reviews.
"use strict";

const SIZES = [["Small", -150], ["Regular", 0], ["Large", 250]];
const STAGES = ["Placed", "Preparing", "On the way", "Delivered"];
const TIPS = [1, 2, 3, 5];
const SORTS = { "": "Our order", rating: "Best rated", fee: "Lowest delivery fee", time: "Fastest" };
const dollars = (cents) => `${cents < 0 ? "\u2212" : ""}$${Math.floor(Math.abs(cents) / 100)}.${String(Math.abs(cents) % 100).padStart(2, "0")}`;
const placeOf = (state, name) => state.places.find((one) => one.name === name);
const dishesOf = (place) => place.menu.flatMap((part) => part.dishes);
const orderOf = (state) => state.orders.find((one) => one.number === state.number);
const go = (state, screen, more = {}) => Object.assign(state, { screen, dialog: "", focus: "", ...more });
const backFrom = (state) => {
  const to = { search: "home", restaurant: "home", dish: "restaurant", checkout: "cart", order: "orders", review: "order", address: "account", new: "account" }[state.screen];
  if (to) go(state, to);
};
const unit = (place, { dish, size, extras }) =>
  dishesOf(place).find(({ name }) => name === dish).price + (SIZES.find(([name]) => name === size)?.[1] ?? 0) +
  place.extras.reduce((sum, [name, cents]) => sum + (extras.includes(name) ? cents : 0), 0);
const sums = (state, { place: name, lines, voucher, tip = 0 }) => {
  const place = placeOf(state, name);
  const dishes = lines.reduce((sum, line) => sum + unit(place, line) * line.count, 0);
  const off = Math.floor((dishes * (state.codes.find(([code]) => code === voucher)?.[1] ?? 0)) / 100);
  return { dishes, off, fee: place.fee, tip: tip * 100, total: dishes - off + place.fee + tip * 100 };
};
const said = ({ dish, size, extras }) => [size && `${size} `, dish, extras.length ? ` with ${extras.join(", ")}` : ""].join("");
const same = (a, b) => a.dish === b.dish && a.size === b.size && a.extras.join() === b.extras.join();

// --- what can be done ---
const openDish = (state, name) => {
  const { sized } = dishesOf(placeOf(state, state.place)).find((one) => one.name === name);
  go(state, "dish", { line: { dish: name, size: sized ? "Regular" : "", extras: [], count: 1 } });
};
const put = (state, place, lines) => {
  if (state.cart.lines.length && state.cart.place !== place) return (state.dialog = "replace");
  state.cart.place = place;
  for (const line of lines) {
    const held = state.cart.lines.find((one) => same(one, line));
    if (held) held.count = Math.min(9, held.count + line.count);
    else state.cart.lines.push(structuredClone(line));
  }
  go(state, state.screen === "dish" ? "restaurant" : "cart");
};
const clear = (state) => Object.assign(state, { cart: { place: "", lines: [], voucher: "" }, code: "" });
const again = (state) => put(state, orderOf(state).place, orderOf(state).lines);
const replace = (state) => {
  clear(state);
  state.screen === "dish" ? put(state, state.place, [state.line]) : again(state);
};
const apply = (state) => {
  const code = state.code.trim().toUpperCase();
  if (!state.codes.some(([one]) => one === code)) return (state.dialog = "voucher");
  state.cart.voucher = code;
  Object.assign(state, { code: "", focus: "" });
};
const order = (state, place, lines, voucher, { address, time, pay, tip }) => {
  const number = Math.max(...state.orders.map((one) => one.number)) + 1;
  state.orders.unshift({ number, place, lines, voucher, address, time, pay, tip, status: "Placed", courier: "", mins: 0, stars: 0, words: "" });
  return number;
};
const placeOrder = (state) => {
  const { place, lines, voucher } = state.cart;
  const number = order(state, place, lines, voucher, state.check);
  clear(state);
  go(state, "order", { number, segment: "active" });
};
const like = (state, name) => (state.favourites = state.favourites.includes(name) ? state.favourites.filter((one) => one !== name) : [...state.favourites, name]);
const save = (state, label, street) => {
  if (!label.trim() || !street.trim()) throw Error("an address needs a label and a street");
  if (Object.hasOwn(state.addresses, label.trim())) throw Error(`there is an address ${label.trim()} already`);
  state.addresses = { ...state.addresses, [label.trim()]: street.trim() };
};

// --- parts ---
const ART = {
  Pizza: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM12 12l6-6M12 12l-8.500 2M12 12l3 8.400M9 7.500h.1M15.500 13h.1M8.500 16.500h.1M14 8.500h.1",
  Sushi: "M4 9c0-3 4-4.500 8-4.500S20 6 20 9v6c0 3-4 4.500-8 4.500S4 18 4 15zM4 9c0 3 4 4.500 8 4.500S20 12 20 9M9.500 8.500h5",
  Burgers: "M4 10c0-4 4-6 8-6s8 2 8 6zM3.500 13.500h17M4 17h16c0 2-1.500 3-3 3H7c-1.500 0-3-1-3-3zM9 7.500h.1M13 6.500h.1",
  Curry: "M3 12h18c0 5-4 8-9 8s-9-3-9-8zM8 9c-1.500-2 1.500-3 0-5M12.500 9c-1.500-2 1.500-3 0-5M17 9c-1.500-2 1.500-3 0-5",
  Noodles: "M3 12h18c0 5-4 8-9 8s-9-3-9-8zM7 12V4M10 12V4M13 12c0-4 5-3 7-8M6 6.500h5",
  Salads: "M3 12h18c0 5-4 8-9 8s-9-3-9-8zM7 12c-2-4 1-7 4-6 1-3 5-2 5 1 3 0 3 3 2 5",
  Tacos: "M2.500 17c0-6 4-10.500 9.500-10.500S21.500 11 21.500 17zM6 17c.5-4 2.500-7 6-7s5.500 3 6 7M9 5.500l1.500 1.500M14 5l-.5 2",
  Bakery: "M5 20v-8c-3-2-1-7 7-7s10 5 7 7v8zM9 12v4M12 12v4M15 12v4",
};
Object.assign(ICONS, Object.fromEntries(Object.entries(ART).map(([kind, path]) => [`food ${kind}`, path])));
const photo = ({ kind, hue }, style, size) => h("div", { class: `photo ${style}`, style: `--hue: ${hue}` }, icon(`food ${kind}`, size));
const about = ({ rating, mins, fee }) => h("span", { class: "about" }, icon("star", 13, true), `${rating} \u00b7 ${mins} min \u00b7 ${dollars(fee)} delivery`);
const bill = (state, what) => {
  const { dishes, off, fee, tip, total } = sums(state, what);
  return [pair("Dishes", dollars(dishes)), off ? pair(`Voucher ${what.voucher}`, dollars(-off)) : null, pair("Delivery", dollars(fee)), tip ? pair("Tip", dollars(tip)) : null, h("div", { class: "pair total" }, h("span", {}, "Total"), h("span", {}, dollars(total)))];
};
const lineOf = (state, place, line) => pair(`${line.count} \u00d7 ${said(line)}`, dollars(unit(placeOf(state, place), line) * line.count));
const hasCart = (state) => state.cart.lines.length > 0;
const amount = (state) => state.cart.lines.reduce((sum, line) => sum + line.count, 0);

// --- screens ---
function home(state) {
  const by = { "": () => 0, rating: (a, b) => Number(b.rating) - Number(a.rating), fee: (a, b) => a.fee - b.fee, time: (a, b) => a.mins - b.mins }[state.sort];
  const shown = state.places.filter(({ kind }) => !state.kind || kind === state.kind).sort(by);
  const card = (place) => h("div", { class: `place ${state.layout.cards}`, name: place.name, onclick: tapped((now) => go(now, "restaurant", { place: place.name })) },
    photo(place, state.layout.cards === "photo" ? "wide" : "small", state.layout.cards === "photo" ? 44 : 30),
    h("div", { class: "words" }, h("b", {}, place.name, state.favourites.includes(place.name) && icon("heart", 14, true)), h("span", {}, place.kind), about(place)));
  return { parts: [
    bar(state.layout.brand, { tools: [tool("filter", "list", (now) => (now.dialog = "filter"))] }),
    h("div", { class: "strip" }, icon("pin", 15), `${state.address}, ${state.addresses[state.address]}`),
    h("div", { class: "pad" }, h("a", { class: "fake", name: "search", onclick: tapped((now) => go(now, "search", { query: "", focus: "search" })) }, icon("search", 18), "Restaurant or dish")),
    h("div", { class: "label" }, `${state.kind || "All restaurants"} \u00b7 ${SORTS[state.sort]}`),
    content(`home ${state.kind} ${state.sort}`, ...shown.map(card), shown.length ? null : empty("No restaurant near you.")),
  ] };
}

function search(state) {
  const wanted = state.query.trim().toLowerCase();
  const hit = (place) => [place.name, place.kind, ...dishesOf(place).map(({ name }) => name)].filter((text) => text.toLowerCase().includes(wanted));
  const found = state.places.filter((place) => hit(place).length);
  const sub = (place) => (wanted ? hit(place).filter((text) => text !== place.name).slice(0, 2).join(", ") : "") || place.kind;
  return { parts: [
    bar("Search", { back: backFrom }),
    h("div", { class: "pad" }, box({ name: "search", value: state.query, hint: "Restaurant or dish", picture: "search", write: (now, text) => (now.query = text) })),
    content("found", found.length ? list(...found.map((place) => row({ name: place.name, media: photo(place, "dot", 18), title: place.name, sub: sub(place), act: (now) => go(now, "restaurant", { place: place.name }) }))) : empty(`Nothing is called "${state.query.trim()}".`)),
  ] };
}

function restaurant(state) {
  const place = placeOf(state, state.place);
  const liked = state.favourites.includes(place.name);
  const rows = (part) => list(...part.dishes.map(({ name, price, sized }) => row({ name, title: name, sub: sized ? "3 sizes, extras" : "Extras possible", after: h("b", {}, dollars(price)), act: (now) => openDish(now, name) })));
  return { parts: [
    bar(place.name, { back: backFrom, tools: [tool(liked ? "remove favourite" : "add favourite", "heart", (now) => like(now, place.name), liked)] }),
    content(`menu ${place.name}`, photo(place, "cover", 52), h("div", { class: "facts" }, h("b", {}, place.kind), about(place)),
      ...place.menu.flatMap((part) => [label(part.section.toUpperCase()), rows(part)])),
    hasCart(state) && foot(button("view cart", `View cart \u00b7 ${amount(state)} \u00b7 ${dollars(sums(state, state.cart).dishes)}`, (now) => go(now, "cart"))),
  ] };
}

function dish(state) {
  const place = placeOf(state, state.place);
  const { line } = state;
  const { price, sized } = dishesOf(place).find(({ name }) => name === line.dish);
  const flip = (name) => (now) => (now.line.extras = now.line.extras.includes(name) ? now.line.extras.filter((one) => one !== name) : [...now.line.extras, name].sort());
  const count = (by) => (now) => (now.line.count = Math.min(9, Math.max(1, now.line.count + by)));
  return { parts: [
    bar(line.dish, { back: backFrom }),
    content("dish", photo(place, "cover", 52), h("div", { class: "facts" }, h("b", {}, line.dish), h("span", { class: "about" }, `${place.name} \u00b7 ${dollars(price)}`)),
      sized && label("SIZE"), sized && h("div", { class: "chips thirds" }, ...SIZES.map(([name, cents]) => chip(`size ${name}`, `${name} ${dollars(price + cents)}`, line.size === name, (now) => (now.line.size = name)))),
      label("EXTRAS"), list(...place.extras.map(([name, cents]) => row({ name: `extra ${name}`, title: name, sub: `+ ${dollars(cents)}`, picked: line.extras.includes(name), after: h("span", { class: "mark" }, line.extras.includes(name) ? icon("check", 18) : icon("plus", 18)), act: flip(name) })))),
    foot(stepper("portions", line.count, count(-1), count(1)), button("add to cart", `Add \u00b7 ${dollars(unit(place, line) * line.count)}`, (now) => put(now, now.place, [now.line]))),
  ] };
}

function cart(state) {
  if (!hasCart(state)) return { parts: [bar("Cart"), content("cart", empty("Your cart is empty. Choose a restaurant first."))] };
  const place = placeOf(state, state.cart.place);
  const count = (k, by) => (now) => {
    now.cart.lines[k].count = Math.min(9, now.cart.lines[k].count + by);
    if (!now.cart.lines[k].count) now.cart.lines.splice(k, 1);
    if (!now.cart.lines.length) clear(now);
  };
  const line = (one, k) => h("div", { class: "line" }, h("div", { class: "words" }, h("b", {}, one.dish), h("span", {}, [one.size, ...one.extras].filter(Boolean).join(", ") || "As it comes"), h("span", {}, dollars(unit(place, one) * one.count))), stepper(one.dish, one.count, count(k, -1), count(k, 1)));
  const voucher = state.cart.voucher
    ? list(row({ name: "remove voucher", media: "gift", title: state.cart.voucher, sub: "Voucher", after: "Remove", act: (now) => (now.cart.voucher = "") }))
    : h("div", { class: "pad pairs" }, box({ name: "code", value: state.code, hint: "Voucher code", picture: "gift", write: (now, text) => (now.code = text), done: apply }), button("apply", "Apply", apply, "button-tonal"));
  return { parts: [
    bar("Cart", { tools: [tool("empty cart", "trash", clear)] }),
    content("cart", label(place.name.toUpperCase()), card(...state.cart.lines.map(line)), voucher, card(...bill(state, state.cart))),
    foot(button("checkout", "Go to checkout", (now) => go(now, "checkout", { check: { address: now.address, time: "Now", pay: now.pay, tip: 0 } }))),
  ] };
}

function checkout(state) {
  const { address, time, pay, tip } = state.check;
  const change = (name, media, title, sub) => row({ name, media, title, sub, after: "Change", act: (now) => (now.dialog = name) });
  return { parts: [
    bar("Checkout", { back: backFrom }),
    content("checkout",
      list(change("address", "pin", address, state.addresses[address]), change("time", "clock", time === "Now" ? "As soon as possible" : `Today at ${time}`, "Delivery time"), change("payment", "card", pay, "Payment")),
      label("TIP FOR THE COURIER"), h("div", { class: "chips quarters" }, ...TIPS.map((n) => chip(`tip ${n}`, `$${n}`, tip === n, (now) => (now.check.tip = now.check.tip === n ? 0 : n)))),
      card(...state.cart.lines.map((line) => lineOf(state, state.cart.place, line)), ...bill(state, { ...state.cart, tip }))),
    foot(button("place order", `Place order \u00b7 ${dollars(sums(state, { ...state.cart, tip }).total)}`, placeOrder)),
  ] };
}

function orders(state) {
  const active = (one) => STAGES.slice(0, 3).includes(one.status);
  const shown = state.orders.filter((one) => active(one) === (state.segment === "active"));
  const segment = (name) => chip(name, name === "active" ? "Active" : "Past", state.segment === name, (now) => (now.segment = name));
  return { parts: [
    bar("Orders"), h("div", { class: "segments" }, segment("active"), segment("past")),
    content(state.segment, shown.length ? list(...shown.map((one) => row({ name: `order ${one.place}`, media: photo(placeOf(state, one.place), "dot", 18), title: one.place, sub: `${one.status} \u00b7 no. ${one.number}`, after: dollars(sums(state, one).total), act: (now) => go(now, "order", { number: one.number }) }))) : empty("No orders here.")),
  ] };
}

function orderScreen(state) {
  const one = orderOf(state);
  const stage = STAGES.indexOf(one.status);
  const track = one.status === "Cancelled" ? h("div", { class: "big" }, "Cancelled") : [
    h("div", { class: "big" }, one.status), h("div", { class: "track" }, ...STAGES.map((_, k) => h("i", { class: k <= stage ? "on" : "" }))),
    stage < 3 && pair("Arrives", one.time !== "Now" ? `today at ${one.time}` : `in ${one.mins || placeOf(state, one.place).mins} min`),
    pair("Courier", one.courier || "not chosen yet"),
  ];
  const tip = one.status === "Delivered" && [label("TIP FOR THE COURIER"), h("div", { class: "chips quarters" }, ...TIPS.map((n) => chip(`tip ${n}`, `$${n}`, one.tip === n, (now) => (orderOf(now).tip = one.tip === n ? 0 : n))))];
  const review = one.stars > 0 && card(pair("Your review", `${one.stars} of 5 stars`), h("div", {}, one.words));
  const actions = {
    Placed: () => [button("cancel order", "Cancel order", (now) => (now.dialog = "cancel"), "danger")],
    Delivered: () => [button("write review", one.stars ? "Change review" : "Review", (now) => go(now, "review", { stars: one.stars, text: one.words }), "button-tonal"), button("order again", "Order again", again)],
  }[one.status];
  return { parts: [
    bar(one.place, { back: backFrom }),
    content("order", card(track), ...(tip || []), card(...one.lines.map((line) => lineOf(state, one.place, line)), ...bill(state, one)), review,
      card(pair("To", one.address), pair("Street", state.addresses[one.address] ?? "deleted"), pair("Paid with", one.pay), pair("Order", `no. ${one.number}`))),
    actions && foot(...actions()),
  ] };
}

function review(state) {
  const send = (now) => {
    if (!now.stars) return;
    Object.assign(orderOf(now), { stars: now.stars, words: now.text.trim() });
    go(now, "order");
  };
  return { parts: [
    bar("Your review", { back: backFrom }),
    content("review", h("div", { class: "facts" }, h("b", {}, orderOf(state).place), h("span", { class: "about" }, orderOf(state).lines.map(said).join(", "))),
      h("div", { class: "stars" }, ...[1, 2, 3, 4, 5].map((n) => tool(`star ${n}`, "star", (now) => (now.stars = n), n <= state.stars))),
      h("div", { class: "pad" }, box({ name: "review", value: state.text, hint: "How was it?", lines: 3, write: (now, text) => (now.text = text) }))),
    foot(h("div", { class: `grow ${state.stars ? "" : "off"}` }, button("send review", "Send review", send))),
  ] };
}

function account(state) {
  const address = (name) => row({ name: `address ${name}`, media: name === "Home" ? "home" : name === "Work" ? "briefcase" : "pin", title: name, sub: state.addresses[name], after: state.address === name ? "Default" : "", act: (now) => go(now, "address", { label: name }) });
  const pay = (name) => row({ name, media: "card", title: name, after: state.pay === name ? h("span", { class: "mark" }, icon("check")) : "", act: (now) => (now.pay = name) });
  const liked = (name) => row({ name, media: photo(placeOf(state, name), "dot", 18), title: name, sub: placeOf(state, name).kind, act: (now) => go(now, "restaurant", { place: name }) });
  const add = row({ name: "add address", media: "plus", title: "Add an address", act: (now) => go(now, "new", { draft: { label: "", street: "" } }) });
  const parts = {
    addresses: [label("ADDRESSES"), list(...Object.keys(state.addresses).sort().map(address), add)],
    payment: [label("PAYMENT"), list(...state.cards.map(pay))],
    favourites: [label("FAVOURITES"), state.favourites.length ? list(...state.favourites.map(liked)) : empty("No favourites yet.")],
  };
  return { parts: [bar("Account"), content("account", ...state.layout.account.flatMap((name) => parts[name]), label("VOUCHERS"), card(...state.codes.map(([code, off]) => pair(code, `${off} % off`))))] };
}

function addressScreen(state) {
  const gone = (now) => {
    if (now.address === now.label) return (now.dialog = "refused");
    const { [now.label]: _, ...rest } = now.addresses;
    now.addresses = rest;
    go(now, "account");
  };
  return { parts: [
    bar(state.label, { back: backFrom }),
    content("address", card(h("div", { class: "big" }, state.label), pair("Street", state.addresses[state.label]), pair("Default", state.address === state.label ? "yes" : "no"))),
    foot(button("delete address", "Delete", gone, "danger"), button("make default", "Make default", (now) => (now.address = now.label), "button-tonal")),
  ] };
}

function newAddress(state) {
  const field = (name, hint, picture) => h("div", { class: "pad" }, box({ name, value: state.draft[name], hint, picture, write: (now, text) => (now.draft[name] = text) }));
  const done = (now) => {
    try { save(now, now.draft.label, now.draft.street); } catch { return (now.dialog = "refused"); }
    go(now, "account");
  };
  return { parts: [bar("New address", { back: backFrom }), content("new", field("label", "Label, like Home", "edit"), field("street", "Street and number", "pin")), foot(button("save address", "Save", done))] };
}

// --- what lies over a screen ---
function over(state) {
  const pick = (key, value) => (now) => { now.check[key] = value; now.dialog = ""; };
  const close = (now) => (now.dialog = "");
  const shut = (name, text) => button(name, text, close, "button-tonal");
  const parts = {
    filter: () => sheet("Filter",
      label("KIND"), h("div", { class: "chips" }, chip("all kinds", "All", !state.kind, (now) => { now.kind = ""; close(now); }), ...Object.keys(ART).map((kind) => chip(`only ${kind}`, kind, state.kind === kind, (now) => { now.kind = kind; close(now); }))),
      label("SORT BY"), h("div", { class: "chips" }, ...Object.entries(SORTS).map(([key, text]) => chip(`sort by ${key || "place"}`, text, state.sort === key, (now) => { now.sort = key; close(now); })))),
    address: () => sheet("Deliver to", list(...Object.entries(state.addresses).sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, street]) => row({ name: `to ${name}`, media: "pin", title: name, sub: street, picked: state.check.address === name, act: pick("address", name) })))),
    time: () => sheet("Delivery time", h("div", { class: "chips grid" }, ...["Now", ...state.slots].map((time) => chip(time, time, state.check.time === time, pick("time", time))))),
    payment: () => sheet("Payment", list(...state.cards.map((name) => row({ name, media: "card", title: name, picked: state.check.pay === name, act: pick("pay", name) })))),
    cancel: () => ask("Cancel this order?", `${state.screen === "order" ? orderOf(state).place : ""}`, shut("keep order", "Keep"), button("confirm cancel", "Cancel it", (now) => { orderOf(now).status = "Cancelled"; close(now); }, "danger")),
    replace: () => ask("Start a new cart?", `The cart holds dishes from ${state.cart.place}.`, shut("keep cart", "Keep"), button("new cart", "New cart", replace)),
    voucher: () => ask("Not valid", `There is no voucher "${state.code.trim()}".`, button("close", "Close", close)),
    refused: () => ask("Not possible", state.screen === "new" ? "An address needs a new label and a street." : "This is the default address.", button("close", "Close", close)),
  };
  return state.dialog ? parts[state.dialog]() : null;
}

const SCREENS = { home, search, restaurant, dish, cart, checkout, orders, order: orderScreen, review, account, address: addressScreen, new: newAddress };
const TAB_OF = { home: "home", restaurant: "home", cart: "cart", orders: "orders", order: "orders", account: "account", address: "account" };
const known = (state, name) => {
  const place = placeOf(state, name);
  if (!place) throw Error(`there is no restaurant ${name}`);
  return place;
};
const latest = (state, name, status) => {
  const one = state.orders.filter((order) => order.place === known(state, name).name && order.status === status).at(-1);
  if (!one) throw Error(`there is no order from ${name} that is ${status.toLowerCase()}`);
  return one;
};

phone({
  screen(state) {
    const tabbar = [["home", "home"], ["cart", "briefcase"], ["orders", "list"], ["account", "user"]].map(([name, picture]) => [name, picture, TAB_OF[state.screen] === name, (now) => go(now, name)]);
    return framed(state, SCREENS[state.screen](state).parts, { tabs: TAB_OF[state.screen] ? tabs(state, tabbar) : null, over: over(state) });
  },
  button(state, name) {
    if (name === "Home") go(state, "home");
    else if (name === "Back" && state.dialog) state.dialog = "";
    else if (name === "Back") backFrom(state);
  },
  tools: {
    "food.order"(state, { restaurant: name, dish, count, size, extra, address, time, pay }) {
      const place = known(state, name);
      const found = dishesOf(place).find((one) => one.name === dish);
      const wrong = !found ? `dish ${dish}` : extra && !place.extras.some(([one]) => one === extra) ? `extra ${extra}` : size && !(found.sized && SIZES.some(([one]) => one === size)) ? `size ${size}`
        : address && !Object.hasOwn(state.addresses, address) ? `address ${address}` : time && !state.slots.includes(time) ? `time ${time}` : pay && !state.cards.includes(pay) ? `payment ${pay}` : "";
      if (wrong) throw Error(`there is no ${wrong}`);
      if (!Number.isInteger(count) || count < 1 || count > 9) throw Error("count must be a whole number from 1 to 9");
      const line = { dish, size: found.sized ? size ?? "Regular" : "", extras: extra ? [extra] : [], count };
      const check = { address: address || state.address, time: time || "Now", pay: pay || state.pay, tip: 0 };
      return { number: order(state, name, [line], "", check), total: dollars(sums(state, { place: name, lines: [line] }).total) };
    },
    "food.cancel"(state, { restaurant: name }) {
      latest(state, name, "Placed").status = "Cancelled";
      if (state.dialog === "cancel") state.dialog = "";
      return { restaurant: name };
    },
    "food.review"(state, { restaurant: name, stars, words }) {
      if (!Number.isInteger(stars) || stars < 1 || stars > 5) throw Error("stars must be a whole number from 1 to 5");
      Object.assign(latest(state, name, "Delivered"), { stars, words: String(words ?? "").trim() });
      return { restaurant: name, stars };
    },
    "food.set_favourite"(state, { restaurant: name, favourite }) {
      if (state.favourites.includes(known(state, name).name) !== Boolean(favourite)) like(state, name);
      return { favourites: state.favourites };
    },
    "food.add_address"(state, { label, street }) {
      save(state, String(label ?? ""), String(street ?? ""));
      return { addresses: Object.keys(state.addresses) };
    },
  },
});
