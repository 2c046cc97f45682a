// Market: a shop with categories, filters, articles in colours, a cart with coupons, a checkout, orders and an account.
"use strict";

const DELIVERIES = [["Standard", 390, "3 to 5 days"], ["Express", 890, "next day"], ["Pick-up", 0, "at the store"]];
const PAYMENTS = ["Card", "Invoice", "Transfer"];
const REASONS = ["It is broken", "It does not fit", "It is the wrong one", "I changed my mind"];
const PRICES = { "Under 20": [0, 2000], "20 to 50": [2000, 5000], "Over 50": [5000, 1e6] };
const SORTS = ["Our choice", "Price up", "Price down", "Rating"];
const COUNTS = ["1", "2", "3", "4", "5", "6", "7", "8", "9"];
const INKS = { Black: "#1f2937", White: "#f8fafc", Blue: "#2563eb", Green: "#16a34a", Red: "#dc2626", Grey: "#9ca3af", Yellow: "#facc15", Sand: "#d6c5a3", Violet: "#7c3aed", Copper: "#b87333", Mint: "#86e0c0", Navy: "#1e3a6e", Coral: "#fb7c6a", Olive: "#7c8a3c" };
const ART = {
  Kitchen: "M5 9h11v6a4 4 0 0 1-4 4H9a4 4 0 0 1-4-4zM16 11h2a2 2 0 0 1 0 5h-2M8 6c-1-1 1-2 0-3M12 6c-1-1 1-2 0-3",
  Garden: "M12 21V10M12 12C7 12 5 9 5 5c5 0 7 3 7 7zM12 15c4 0 6-2.500 6-6-4 0-6 2-6 6z",
  Sports: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM4 8c4 1 6 4 5 12M20 8c-5 0-8 3-8 12M8 4c1 3 5 4 10 2",
  Office: "M5 20l1-5L16 5l4 4L10 19zM14 7l4 4M4 21h16",
  Toys: "M4 13h10V8H8V5H5v8M14 13h5l1 3v2H4v-5M7 18a2 2 0 1 0 .1 0M16 18a2 2 0 1 0 .1 0M18 13V9",
  Audio: "M5 14v-2a7 7 0 0 1 14 0v2M4 14h3v6H5a1 1 0 0 1-1-1zM20 14h-3v6h2a1 1 0 0 0 1-1z",
};
const act = (how) => () => app.change(how);
const euros = (cents) => `${cents < 0 ? "\u2212" : ""}${Math.floor(Math.abs(cents) / 100)}.${String(Math.abs(cents) % 100).padStart(2, "0")} \u20ac`;
const product = (state, name) => find(state.goods, (one) => one.name === name, `article ${name}`);
const orderOf = (state, number) => find(state.orders, (one) => one.number === number, `order ${number}`);
const cartHolds = (state) => state.cart.lines.reduce((sum, line) => sum + line.count, 0);
const sums = (state, { lines, coupon, delivery }) => {
  const goods = lines.reduce((sum, line) => sum + product(state, line.name).price * line.count, 0);
  const off = Math.floor((goods * (state.coupons.find(([code]) => code === coupon)?.[1] ?? 0)) / 100);
  const sent = DELIVERIES.find(([name]) => name === delivery)?.[1] ?? null;
  return { goods, off, sent, total: goods - off + (sent ?? 0) };
};

// --- what can be done ------------------------------------------------------------------------------------------------
const PLAIN = { category: "", query: "", brand: "", price: "", sort: "Our choice" };
const openList = (state, view) => {
  Object.assign(state, { view: { ...PLAIN, ...view }, typed: view.query ?? "" });
  go(state, { page: "list" });
};
const openProduct = (state, name) => {
  Object.assign(state, { chosen: { option: "", count: "1" }, review: { stars: "", words: "" } });
  go(state, { page: "product", name });
};
const flipWish = (state, name) => (state.wish = state.wish.includes(name) ? state.wish.filter((one) => one !== name) : [...state.wish, name]);
const put = (state, name, option, count) => {
  const held = state.cart.lines.find((line) => line.name === name && line.option === option);
  if (held) held.count = Math.min(9, held.count + count);
  else state.cart.lines = [...state.cart.lines, { name, option, count }];
  state.toast = `${name} is in the cart`;
};
const drop = (state, k) => {
  state.cart.lines = state.cart.lines.filter((_, other) => other !== k);
  if (!state.cart.lines.length) state.cart.coupon = "";
};
const refuse = (state, title, text) => (state.dialog = { icon: "error", title, text, ok: "OK" });
const addChosen = (state, name) => {
  const { option, count } = state.chosen;
  if (!option) return refuse(state, "Which colour?", "Please choose a colour first.");
  put(state, name, option, Number(count));
};
const applyCoupon = (state) => {
  const code = state.code.trim().toUpperCase();
  if (!state.coupons.some(([one]) => one === code)) return refuse(state, "Not valid", `There is no coupon "${state.code.trim()}".`);
  Object.assign(state, { cart: { ...state.cart, coupon: code }, code: "" });
};
const openCheckout = (state) => {
  state.form = { ...state.profile, delivery: "", pay: "", gift: false };
  go(state, { page: "checkout" });
};
const place = (state, lines, coupon, form) => {
  const number = `M-${Math.max(...state.orders.map((one) => Number(one.number.slice(2)))) + 1}`;
  const { name, street, city, gift, delivery, pay } = form;
  const said = { name: name.trim(), street: street.trim(), city: city.trim() };
  state.orders = [{ number, date: "today", status: "Being packed", lines, ...said, gift, delivery, pay, coupon, returns: {}, new: true }, ...state.orders];
  return number;
};
const placeOrder = (state) => {
  const { form } = state;
  const missing = [["name", "the name"], ["street", "the street"], ["city", "the city"], ["mail", "the mail address"], ["delivery", "the delivery"], ["pay", "the payment"]].find(([key]) => !form[key].trim());
  if (missing) return refuse(state, "Something is missing", `Please choose ${missing[1]}.`);
  const number = place(state, state.cart.lines, state.cart.coupon, form);
  Object.assign(state, { cart: { lines: [], coupon: "" }, code: "", form: null, past: state.past.filter((at) => at.page !== "checkout") });
  go(state, { page: "order", number });
  state.past = state.past.filter((at) => at.page !== "checkout");
  state.toast = "Thank you for your order";
};
const cancelOrder = (state, number) => {
  const order = orderOf(state, number);
  if (order.status !== "Being packed") throw Error(`the order ${number} can not be cancelled any more`);
  order.status = "Cancelled";
};
const sendBack = (state, number, name, reason) => {
  const order = orderOf(state, number);
  if (order.status !== "Delivered") throw Error(`the order ${number} has not been delivered`);
  find(order.lines, (line) => line.name === name, `article ${name} in the order ${number}`);
  if (!REASONS.includes(reason)) throw Error(`the reason must be one of ${REASONS.join(", ")}`);
  order.returns = { ...order.returns, [name]: reason };
};
const sendReview = (state, name, stars, words) => {
  if (!["1", "2", "3", "4", "5"].includes(stars)) throw Error("please choose one to five stars");
  product(state, name).reviews = [...product(state, name).reviews, { stars, words: words.trim() }];
};

// --- parts -----------------------------------------------------------------------------------------------------------
function drawn(category, size) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  for (const [key, value] of Object.entries({ viewBox: "0 0 24 24", width: size, height: size, fill: "none", stroke: "currentColor", "stroke-width": 1.4, "stroke-linecap": "round", "stroke-linejoin": "round" })) svg.setAttribute(key, value);
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", ART[category]);
  svg.append(path);
  return svg;
}
const picture = ({ category, hue }, size, kind = "") => h("div", { class: `picture ${kind}`, style: `--hue: ${hue}` }, drawn(category, size));
const stars = (rating) => h("span", { class: "rating" }, "\u2605".repeat(Math.round(rating)), h("span", {}, "\u2605".repeat(5 - Math.round(rating))), ` ${rating}`);
const swatch = (option) => h("i", { class: "swatch", style: `background: ${INKS[option] ?? "#cbd5e1"}` });
const tick = (name, kind, on, how, ...text) => h("button", { name, class: `tick ${kind} ${on ? "on" : ""}`, onclick: act(how) }, h("span", { class: "mark" }, on ? (kind === "round" ? "\u25cf" : "\u2713") : ""), text);
const bill = (state, what) => {
  const { goods, off, sent, total } = sums(state, what);
  const line = (text, value, kind = "") => h("div", { class: `sum ${kind}` }, h("span", {}, text), h("span", {}, value));
  return h("div", { class: "bill" }, line("Articles", euros(goods)), off ? line(`Coupon ${what.coupon}`, euros(-off)) : null, line("Delivery", sent === null ? "at checkout" : euros(sent)), line("Total", euros(total), "total"));
};
const field = (key, text, held, type) => h("label", { class: "field" }, h("span", {}, text), entry(`${key} box`, held, type));

function header(state) {
  const link = (name, text, badge) => h("button", { name, class: `press plain ${state.at.page === name ? "on" : ""}`, onclick: act((now) => go(now, { page: name })) }, text, badge ? h("span", { class: "badge" }, String(badge)) : null);
  return [
    h("header", { class: "bar" },
      h("button", { name: "home", class: "brand press plain", onclick: act((now) => { go(now, { page: "home" }); now.typed = ""; }) }, state.layout.brand),
      h("div", { class: "find" },
        entry("search box", state.typed, (text) => (app.now().typed = text), { placeholder: "Search the shop", onkeydown: enter(act((now) => openList(now, { query: now.typed.trim() }))) }),
        h("button", { name: "search", class: "press", onclick: act((now) => openList(now, { query: now.typed.trim() })) }, "Search")),
      link("wish", "Wish list", state.wish.length), link("orders", "Orders"), link("account", "Account"), link("cart", "Cart", cartHolds(state))),
    h("nav", { class: "cats" }, state.layout.cats.map((name) => h("button", { name: `${name} category`, class: state.at.page === "list" && state.view.category === name ? "on" : "", onclick: act((now) => openList(now, { category: name })) }, drawn(name, 17), name))),
  ];
}

const tile = (state, one) => h("div", { class: "tile", name: `article ${one.name}`, onclick: act((now) => openProduct(now, one.name)) },
  picture(one, 54),
  h("button", { name: `heart of ${one.name}`, class: `heart ${state.wish.includes(one.name) ? "on" : ""}`, onclick: (event) => { event.stopPropagation(); app.change((now) => flipWish(now, one.name)); } }, state.wish.includes(one.name) ? "\u2665" : "\u2661"),
  h("b", { class: "cut" }, one.name), h("div", { class: "muted cut" }, one.brand), h("div", { class: "foot" }, h("span", { class: "price" }, euros(one.price)), stars(one.rating)));

// --- pages -----------------------------------------------------------------------------------------------------------
const homePage = (state) => h("div", { class: "page", "data-main": "" },
  h("div", { class: "hero" }, h("div", {}, h("h1", {}, "Things for every day"), h("p", {}, `With ${state.coupons[0][0]} you save ${state.coupons[0][1]} % today.`)), drawn(state.layout.cats[0], 110)),
  h("h2", {}, "New in the shop"), h("div", { class: `grid g${state.layout.columns}` }, state.goods.slice(0, 8).map((one) => tile(state, one))));

function listed(state) {
  const { category, query, brand, price, sort } = state.view;
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const [low, high] = PRICES[price] ?? [0, 1e6];
  const order = { "Our choice": () => 0, "Price up": (a, b) => a.price - b.price, "Price down": (a, b) => b.price - a.price, Rating: (a, b) => Number(b.rating) - Number(a.rating) }[sort];
  return state.goods.filter((one) => {
    const text = `${one.name} ${one.brand} ${one.category}`.toLowerCase();
    return (!category || one.category === category) && (!brand || one.brand === brand) && one.price >= low && one.price < high && words.every((word) => text.includes(word));
  }).sort(order);
}
function listPage(state) {
  const found = listed(state);
  const set = (key) => (value) => app.change((now) => { now.view[key] = value; now.scroll = 0; });
  const brands = [...new Set(state.goods.filter(({ category }) => !state.view.category || category === state.view.category).map(({ brand }) => brand))].sort();
  const { category, query, brand, price, sort } = state.view;
  return h("div", { class: `split ${state.layout.side}` },
    h("aside", {}, h("h3", {}, "Filters"),
      h("label", {}, "Brand", choice("brand list", ["", ...brands], brand, set("brand"), { blank: "All brands" })),
      h("label", {}, "Price", choice("price list", ["", ...Object.keys(PRICES)], price, set("price"), { blank: "Any price" })),
      h("label", {}, "Sort by", choice("sort list", SORTS, sort, set("sort"))),
      press("reset filters", "Reset", act((now) => { Object.assign(now.view, { brand: "", price: "", sort: SORTS[0] }); now.scroll = 0; }))),
    h("div", { class: "page", "data-main": "" },
      h("h2", {}, query ? `Results for "${query}"` : category || "All articles", h("span", { class: "muted" }, ` ${found.length} article${found.length === 1 ? "" : "s"}`)),
      h("div", { class: "grid g3" }, found.map((one) => tile(state, one))), found.length ? null : h("p", { class: "muted" }, "Nothing was found. Try another word.")));
}

function productPage(state) {
  const one = product(state, state.at.name);
  const wished = state.wish.includes(one.name);
  const bought = state.orders.some((order) => order.lines.some((line) => line.name === one.name));
  const send = act((now) => {
    try { sendReview(now, one.name, now.review.stars, now.review.words); } catch (error) { return refuse(now, "Not sent", `Sorry, ${error.message}.`); }
    Object.assign(now, { review: { stars: "", words: "" }, toast: "Thank you for your review" });
  });
  return h("div", { class: "page", "data-main": "" },
    h("div", { class: "crumbs muted" }, `Shop \u203a ${one.category} \u203a ${one.name}`),
    h("div", { class: "product" },
      picture(one, 150, "large"),
      h("div", { class: "about" }, h("div", { class: "muted" }, one.brand), h("h1", {}, one.name), stars(one.rating), h("div", { class: "price big" }, euros(one.price)), h("p", {}, one.text),
        h("table", {}, Object.entries(one.facts).map(([name, text]) => h("tr", {}, h("th", {}, name), h("td", {}, text))))),
      h("div", { class: "buy" },
        press("heart", wished ? "\u2665 On the wish list" : "\u2661 To the wish list", act((now) => flipWish(now, one.name)), wished ? "on" : ""),
        h("div", { class: "muted" }, "Colour"),
        h("div", { class: "colours" }, one.options.map((option) => h("button", { name: `colour ${option}`, class: `colour ${state.chosen.option === option ? "on" : ""}`, onclick: act((now) => (now.chosen.option = option)) }, swatch(option), option))),
        h("label", {}, "Count", choice("count list", COUNTS, state.chosen.count, (count) => app.change((now) => (now.chosen.count = count)))),
        press("add to cart", "Add to cart", act((now) => addChosen(now, one.name)), "main"))),
    h("h2", {}, "Reviews"),
    one.reviews.map((review) => h("div", { class: "review" }, stars(Number(review.stars)), h("div", {}, review.words))),
    one.reviews.length ? null : h("p", { class: "muted" }, bought ? "You bought this article. How do you like it?" : "No reviews yet. Be the first."),
    h("div", { class: "write" },
      choice("stars list", ["", "1", "2", "3", "4", "5"], state.review.stars, (value) => app.change((now) => (now.review.stars = value)), { blank: "Stars" }),
      entry("review box", state.review.words, (text) => (app.now().review.words = text), { placeholder: "Write a review" }), press("send review", "Send", send)));
}

function cartPage(state) {
  const { lines, coupon } = state.cart;
  if (!lines.length) return h("div", { class: "page", "data-main": "" }, h("h2", {}, "Your cart"), h("p", { class: "muted" }, "The cart is empty."));
  return h("div", { class: "page", "data-main": "" }, h("h2", {}, "Your cart"),
    h("div", { class: "two" },
      h("div", { class: "lines" }, lines.map((line, k) => h("div", { class: "item" }, picture(product(state, line.name), 30, "small"), h("div", { class: "grow" }, h("b", {}, line.name), h("div", { class: "muted" }, swatch(line.option), `${line.option} \u00b7 ${line.count} \u00d7 ${euros(product(state, line.name).price)}`)), h("b", {}, euros(product(state, line.name).price * line.count)), press(`remove ${line.name}`, "Remove", act((now) => drop(now, k)))))),
      h("div", { class: "side" },
        coupon ? h("div", { class: "coupon" }, h("b", {}, coupon), press("remove coupon", "Remove", act((now) => (now.cart.coupon = "")))) : h("div", { class: "coupon" }, entry("coupon box", state.code, (text) => (app.now().code = text), { placeholder: "Coupon", onkeydown: enter(act(applyCoupon)) }), press("apply", "Apply", act(applyCoupon))),
        bill(state, { ...state.cart, delivery: "" }), press("checkout", "To the checkout", act(openCheckout), "main wide"))));
}

function checkoutPage(state) {
  const { form } = state;
  const type = (key) => (text) => (app.now().form[key] = text);
  const set = (key, value) => (now) => (now.form[key] = value);
  return h("div", { class: "page", "data-main": "" }, h("h2", {}, "Checkout"),
    h("div", { class: "two" },
      h("div", { class: "form" },
        h("h3", {}, "1. Address"), field("name", "Name", form.name, type("name")), field("street", "Street", form.street, type("street")), field("city", "City", form.city, type("city")), field("mail", "Mail address", form.mail, type("mail")),
        h("h3", {}, "2. Delivery"), DELIVERIES.map(([name, cents, when]) => tick(`${name} delivery`, "round", form.delivery === name, set("delivery", name), `${name}, ${when}`, h("span", { class: "muted" }, euros(cents)))),
        tick("gift", "square", form.gift, (now) => (now.form.gift = !now.form.gift), "Wrap it as a gift"),
        h("h3", {}, "3. Payment"), PAYMENTS.map((name) => tick(`${name} payment`, "round", form.pay === name, set("pay", name), name))),
      h("div", { class: "side" }, state.cart.lines.map((line) => h("div", { class: "short" }, `${line.count} \u00d7 ${line.name}, ${line.option}`)), bill(state, { ...state.cart, delivery: form.delivery }), press("place order", "Place order", act(placeOrder), "main wide"))));
}

const badge = (status) => h("span", { class: `status ${status.split(" ")[0].toLowerCase()}` }, status);
const ordersPage = (state) => h("div", { class: "page", "data-main": "" }, h("h2", {}, "Your orders"),
  state.orders.map((order) => h("button", { name: `order ${order.number}`, class: "order", onclick: act((now) => go(now, { page: "order", number: order.number })) },
    h("b", {}, order.number), h("span", { class: "muted" }, order.date), h("span", { class: "grow cut" }, order.lines.map((line) => line.name).join(", ")), badge(order.status), h("b", {}, euros(sums(state, order).total)))));

function orderPage(state) {
  const order = orderOf(state, state.at.number);
  const back = (name) => act((now) => { now.back = { reason: "", words: "" }; go(now, { page: "return", number: order.number, name }); });
  const stop = act((now) => (now.dialog = { icon: "warning", title: "Cancel this order?", text: `Order ${order.number}`, ok: "Yes, cancel it", cancel: "Keep it" }));
  return h("div", { class: "page", "data-main": "" }, h("div", { class: "head" }, h("h2", {}, `Order ${order.number}`), badge(order.status), order.status === "Being packed" ? press("cancel order", "Cancel order", stop) : null),
    h("div", { class: "two" },
      h("div", { class: "lines" }, order.lines.map((line) => h("div", { class: "item" }, picture(product(state, line.name), 30, "small"), h("div", { class: "grow" }, h("b", {}, line.name), h("div", { class: "muted" }, swatch(line.option), `${line.option} \u00b7 ${line.count} \u00d7 ${euros(product(state, line.name).price)}`)),
        order.returns[line.name] ? h("span", { class: "status on" }, "Return announced") : order.status === "Delivered" ? press(`return ${line.name}`, "Send back", back(line.name)) : null))),
      h("div", { class: "side" }, h("div", { class: "short muted" }, `Placed ${order.date === "today" ? "today" : `on ${order.date}`}`), h("div", { class: "short" }, order.name, h("br"), order.street, h("br"), order.city), h("div", { class: "short" }, `${order.delivery} delivery, ${order.pay.toLowerCase()}${order.gift ? ", gift wrap" : ""}`), bill(state, order))));
}

function returnPage(state) {
  const { number, name } = state.at;
  const send = act((now) => {
    if (!now.back.reason) return refuse(now, "Something is missing", "Please choose a reason.");
    sendBack(now, number, name, now.back.reason);
    now.past = now.past.filter((at) => at.page !== "return" && !(at.page === "order" && at.number === number));
    Object.assign(now, { at: { page: "order", number }, scroll: 0, toast: "Your return is announced" });
  });
  return h("div", { class: "page", "data-main": "" }, h("h2", {}, "Send back"),
    h("div", { class: "form narrow" }, h("div", { class: "item" }, picture(product(state, name), 30, "small"), h("div", { class: "grow" }, h("b", {}, name), h("div", { class: "muted" }, `Order ${number}`))),
      h("label", { class: "field" }, h("span", {}, "Reason"), choice("reason list", ["", ...REASONS], state.back.reason, (reason) => app.change((now) => (now.back.reason = reason)), { blank: "Choose a reason" })),
      h("label", { class: "field" }, h("span", {}, "Remarks"), entry("words box", state.back.words, (text) => (app.now().back.words = text), { tall: true, rows: 3 })),
      h("div", { class: "ends" }, press("send return", "Announce the return", send, "main"), press("back", "Back", act(back)))));
}

const wishPage = (state) => h("div", { class: "page", "data-main": "" }, h("h2", {}, "Wish list"),
  h("div", { class: "lines" }, state.wish.map((name) => {
    const one = product(state, name);
    const move = act((now) => { flipWish(now, name); put(now, name, one.options[0], 1); });
    return h("div", { class: "item" }, picture(one, 30, "small"), h("button", { name: `open ${name}`, class: "grow link", onclick: act((now) => openProduct(now, name)) }, h("b", {}, name), h("div", { class: "muted" }, `${one.brand} \u00b7 ${euros(one.price)}`)), press(`to cart ${name}`, "Move to cart", move), press(`unwish ${name}`, "Remove", act((now) => flipWish(now, name))));
  })), state.wish.length ? null : h("p", { class: "muted" }, "Your wish list is empty."));

function accountPage(state) {
  const { edit, profile } = state;
  const type = (key) => (text) => (app.now().edit[key] = text);
  const save = act((now) => {
    const said = Object.fromEntries(Object.entries(now.edit).map(([key, text]) => [key, text.trim()]));
    if (Object.values(said).some((text) => !text)) return refuse(now, "Not saved", "No field may be empty.");
    Object.assign(now, { profile: said, edit: null, toast: "Saved" });
  });
  const rows = [["name", "Name"], ["street", "Street"], ["city", "City"], ["mail", "Mail address"]];
  return h("div", { class: "page", "data-main": "" }, h("h2", {}, "Your account"),
    h("div", { class: "form narrow" },
      edit ? rows.map(([key, text]) => field(key, text, edit[key], type(key))) : h("table", {}, rows.map(([key, text]) => h("tr", {}, h("th", {}, text), h("td", {}, profile[key])))),
      h("div", { class: "ends" }, edit ? [press("save account", "Save", save, "main"), press("cancel edit", "Cancel", act((now) => (now.edit = null)))] : press("edit account", "Edit", act((now) => (now.edit = { ...now.profile })))),
      h("h3", {}, "News"), tick("newsletter", "square", state.letter, (now) => (now.letter = !now.letter), "Send me the newsletter"),
      h("h3", {}, "Your coupons"), state.coupons.map(([code, off]) => h("div", { class: "short" }, h("b", {}, code), ` saves ${off} %`))));
}

const PAGES = { home: homePage, list: listPage, product: productPage, cart: cartPage, checkout: checkoutPage, orders: ordersPage, order: orderPage, return: returnPage, wish: wishPage, account: accountPage };
const popup = dialogs((yes) => app.change((now) => {
  if (yes && now.dialog?.cancel) cancelOrder(now, now.at.number);
  now.dialog = null;
}));
let root = null;

const app = mount({
  notch: 3,
  start: (node) => (root = node),
  ready: popup.ready,
  read: readScroll,
  show(state) {
    dress(root, state.layout);
    root.replaceChildren(...header(state), h("main", {}, PAGES[state.at.page](state)), state.toast ? h("div", { class: "toast" }, state.toast) : "");
    showScroll(state);
    popup.show(state.dialog);
  },
  button: (state, name) => name === "Back" && back(state),
  goto(state, url) {
    const [, part, rest] = pathOf(url).split("/");
    const page = { wish: "wish", orders: "orders", account: "account", cart: "cart" }[part];
    const category = Object.keys(ART).find((name) => name.toLowerCase() === part.toLowerCase());
    if (category) openList(state, { category });
    else if (part === "search" && rest) openList(state, { query: rest });
    else go(state, { page: page ?? "home" });
  },
  tools: {
    "market.buy"(state, { article, colour, count, delivery, pay, name, street, city, gift }) {
      const one = product(state, article);
      if (!one.options.includes(colour)) throw Error(`${article} comes in ${one.options.join(", ")}`);
      if (!Number.isInteger(count) || count < 1 || count > 9) throw Error("count must be a whole number from 1 to 9");
      if (!DELIVERIES.some(([other]) => other === delivery)) throw Error(`there is no delivery ${delivery}`);
      if (!PAYMENTS.includes(pay)) throw Error(`there is no payment ${pay}`);
      const to = { name: name || state.profile.name, street: street || state.profile.street, city: city || state.profile.city };
      return { number: place(state, [{ name: article, option: colour, count }], "", { ...to, gift: Boolean(gift), delivery, pay }) };
    },
    "market.set_wish"(state, { article, wished }) {
      if (state.wish.includes(product(state, article).name) !== Boolean(wished)) flipWish(state, article);
      return { wish: state.wish };
    },
    "market.cancel_order"(state, { number }) {
      cancelOrder(state, number);
      return { number };
    },
    "market.send_back"(state, { number, article, reason }) {
      sendBack(state, number, article, reason);
      return { number, article };
    },
    "market.review"(state, { article, stars, words }) {
      sendReview(state, article, String(stars), String(words ?? ""));
      return { article };
    },
    "market.set_address"(state, { street, city }) {
      if (!String(street ?? "").trim() || !String(city ?? "").trim()) throw Error("street and city must not be empty");
      Object.assign(state.profile, { street: street.trim(), city: city.trim() });
      return state.profile;
    },
    "market.find": (state, { query }) => listed({ ...state, view: { ...PLAIN, query: String(query ?? "") } }).map(({ name, price }) => ({ name, price: euros(price) })),
  },
});
