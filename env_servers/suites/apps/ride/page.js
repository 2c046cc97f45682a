// Ride hailing: a map of the city, a search of its places, classes with their prices, planned rides, past trips, account.
"use strict";

const SIDE = 8; // blocks of the city, each way
const BLOCK = 64; // map units of a block
const KIND_ICONS = { museum: "film", cafe: "fork", park: "sun", station: "train", hotel: "briefcase", shop: "gift", stage: "star", care: "heart", work: "list" };
const dollars = (cents) => `$${Math.floor(cents / 100)}.${String(cents % 100).padStart(2, "0")}`;
const place = (state, name) => state.places.find((one) => one.name === name);
const blocks = (state, from, to) => {
  const [a, b] = [place(state, from), place(state, to)];
  return Math.abs(a.x - b.x) + Math.abs(a.y - b.y);
};
const cost = (state, name, from, to) => {
  const [, , start, each] = state.classes.find(([other]) => other === name);
  return start + each * blocks(state, from, to);
};
const planned = (state, name) => state.rides.find((ride) => ride.to === name);
const go = (state, screen, more = {}) => Object.assign(state, { screen, dialog: "", focus: "", query: "", ...more });
const when = (one) => (one.day ? `${one.day}, ${one.time}` : "Now");
const backFrom = (state) => {
  const ways = {
    search: [{ to: "map", from: "route", home: "account", work: "account" }[state.slot]],
    place: ["map"], route: ["map"], ride: ["trips", { segment: "planned" }], receipt: ["trips", { segment: "past" }],
  };
  if (ways[state.screen]) go(state, ...ways[state.screen]);
};
const find = (state, slot) => go(state, "search", { slot, focus: "search" });
const draw = (state, to) => {
  state.draft = { from: state.here, to, class: state.classes[0][0], pay: state.pay, day: "", time: "" };
  go(state, "route");
};
const choose = (state, name) => {
  if (state.slot === "to") return draw(state, name);
  if (state.slot === "from") return (state.draft.from = name), go(state, "route");
  state[state.slot] = name;
  go(state, "account");
};
const book = (state) => {
  const { from, to } = state.draft;
  if (from === to || planned(state, to)) return (state.dialog = "refused");
  state.rides.push({ ...state.draft, note: "" });
  go(state, "ride", { item: to, text: "" });
};
const cancel = (state, name) => {
  state.rides = state.rides.filter((ride) => ride.to !== name);
  go(state, "trips", { item: "", segment: "planned" });
};
const like = (state, name) => {
  const at = state.favourites.indexOf(name);
  at < 0 ? state.favourites.push(name) : state.favourites.splice(at, 1);
};

// --- the map: leaflet over tiles that are drawn from the city's numbers, made anew each time, so that it keeps nothing ---
function tile(city, size, { x, y, z }) {
  const canvas = h("canvas", { width: size, height: size });
  const ink = canvas.getContext("2d");
  const scale = 2 ** z;
  ink.scale(scale, scale);
  ink.translate((-x * size) / scale, (-y * size) / scale);
  ink.fillStyle = "#e8ecef";
  ink.fillRect(-BLOCK * 4, -BLOCK * 4, BLOCK * (SIDE + 8), BLOCK * (SIDE + 8));
  for (const [column, row, kind] of city.areas) {
    ink.fillStyle = { park: "#c9e7c0", built: "#dcdfe6", square: "#f1e6d2" }[kind];
    ink.fillRect(column * BLOCK + 5, row * BLOCK + 5, BLOCK - 10, BLOCK - 10);
  }
  const line = (points, width, colour) => {
    ink.beginPath();
    points.forEach(([px, py], k) => (k ? ink.lineTo(px, py) : ink.moveTo(px, py)));
    [ink.lineWidth, ink.strokeStyle, ink.lineJoin] = [width, colour, "round"];
    ink.stroke();
  };
  const whole = [-BLOCK * 4, BLOCK * (SIDE + 4)];
  for (let k = -3; k <= SIDE + 3; k++) {
    const wide = city.avenues.includes(k);
    for (const flip of [false, true]) {
      const ends = whole.map((end) => (flip ? [end, k * BLOCK] : [k * BLOCK, end]));
      line(ends, wide ? 12 : 7, "#c5cbd4");
      line(ends, wide ? 10 : 5, wide ? "#fde9b0" : "#ffffff");
    }
  }
  line(city.river.map(([px, py]) => [px * BLOCK, py * BLOCK]), 26, "#a9d3ef");
  return canvas;
}

function map(state, { still, spots, route, over = [] }) {
  return { node: h("div", { class: "map", onswipe: still ? undefined : (event) => {
    event.preventDefault();
    const { dx, dy } = event.detail;
    change((now) => {
      const part = 2 ** now.view.z;
      const within = (value) => Math.round(Math.min(SIDE * BLOCK, Math.max(0, value)));
      now.view.x = within(now.view.x - dx / part);
      now.view.y = within(now.view.y - dy / part);
    });
  } }, h("div", { class: "canvas" }), ...over), spots, route };
}

let drawn = null; // the map of the present screen
function drawMap(state, { node, spots, route }) {
  const at = (name) => [-place(state, name).y * BLOCK, place(state, name).x * BLOCK];
  const off = Object.fromEntries(["zoomControl", "attributionControl", "dragging", "touchZoom", "doubleClickZoom", "scrollWheelZoom", "boxZoom", "keyboard", "tapHold", "fadeAnimation", "zoomAnimation", "markerZoomAnimation", "inertia", "trackResize"].map((key) => [key, false]));
  drawn = L.map(node.querySelector(".canvas"), { ...off, crs: L.CRS.Simple, minZoom: -1, maxZoom: 2, zoomSnap: 1 }); // whole zooms: a canvas that is scaled is not drawn alike each time
  if (route) drawn.fitBounds(L.latLngBounds(route.map(at)), { animate: false, padding: [34, 34], maxZoom: 1 });
  else drawn.setView([-state.view.y, state.view.x], state.view.z, { animate: false });
  const tiles = L.GridLayer.extend({ createTile(coords) { return tile(state.city, this.getTileSize().x, coords); } });
  new tiles({ minZoom: -1, maxZoom: 2 }).addTo(drawn);
  if (route) {
    const [a, b] = route.map(at);
    L.polyline([a, [a[0], b[1]], b], { color: ACCENTS[state.layout.accent], weight: 5, interactive: false }).addTo(drawn);
  }
  for (const { name, kind, picture, act, said } of spots) {
    const mark = h("div", { class: `spot ${kind}`, name: act && `pin ${name}`, onclick: act && (() => change(act)) }, icon(picture, 16), said && h("div", { class: "spot-name" }, name));
    L.marker(at(name), { icon: L.divIcon({ html: mark, className: "", iconSize: [30, 30] }), interactive: Boolean(act), keyboard: false }).addTo(drawn);
  }
}

// --- screens ---
function home(state) {
  const low = state.layout.where === "low";
  const zoom = (name, by) => tool(name, by > 0 ? "plus" : "minus", (now) => (now.view.z = Math.min(2, Math.max(-1, now.view.z + by))));
  const pins = state.pins.map((name) => ({ name, kind: "", picture: KIND_ICONS[place(state, name).kind], act: (now) => go(now, "place", { place: name }), said: state.view.z > 0 }));
  const shown = map(state, {
    spots: [...pins, { name: state.here, kind: "me", picture: "user" }],
    over: [
      h("a", { class: `over where ${low ? "low" : ""}`, name: "where to", onclick: () => change((now) => find(now, "to")) }, icon("search", 18), "Where to?"),
      h("div", { class: "over zoom" }, zoom("zoom in", 1), zoom("zoom out", -1)),
    ],
  });
  return { parts: [bar(state.layout.brand), shown.node], map: shown };
}

function search(state) {
  const wanted = state.query.trim().toLowerCase();
  const found = state.places.filter(({ name }) => name.toLowerCase().includes(wanted));
  const title = { to: "Where to?", from: "Pick-up", home: "Set home", work: "Set work" }[state.slot];
  return { parts: [
    bar(title, { back: backFrom }),
    h("div", { class: "pad" }, box({ name: "search", value: state.query, hint: "Search places", picture: "search", write: (now, text) => (now.query = text) })),
    content("places", found.length ? list(...found.map(({ name, kind, street }) => row({ name, media: KIND_ICONS[kind], title: name, sub: street, act: (now) => choose(now, name) }))) : empty("No place has this name.")),
  ], bare: true };
}

function placeScreen(state) {
  const { name, kind, street, rating } = place(state, state.place);
  const liked = state.favourites.includes(name);
  const shown = map(state, { still: true, route: [state.here, name], spots: [{ name: state.here, kind: "me", picture: "user" }, { name, kind: "end", picture: "pin" }] });
  return { map: shown, small: true, parts: [
    bar(name, { back: backFrom, tools: [tool(liked ? "remove favourite" : "add favourite", "heart", (now) => like(now, name), liked)] }),
    shown.node,
    content("place", card(pair("Kind", kind), pair("Address", street), pair("Rating", `${rating} of 5`), pair("Distance", `${blocks(state, state.here, name)} blocks`)),
      list(...["home", "work"].map((slot) => row({ name: `set as ${slot}`, media: slot === "home" ? "home" : "briefcase", title: `Set as ${slot}`, after: state[slot] === name ? "set" : "", act: (now) => (now[slot] = name) })))),
    foot(button("ride here", "Ride here", (now) => draw(now, name))),
  ] };
}

function route(state) {
  const { from, to, pay } = state.draft;
  const shown = map(state, { still: true, route: [from, to], spots: [{ name: from, kind: "me", picture: "user" }, { name: to, kind: "end", picture: "pin" }] });
  return { map: shown, small: true, bare: true, parts: [
    bar(`To ${to}`, { back: backFrom }),
    shown.node,
    content("route",
      list(
        row({ name: "pick-up", media: "user", title: from, sub: "Pick-up", after: "Change", act: (now) => find(now, "from") }),
        row({ name: "time", media: "clock", title: when(state.draft), sub: "Time", after: "Change", act: (now) => (now.dialog = "time") }),
        row({ name: "payment", media: "card", title: pay, sub: "Payment", after: "Change", act: (now) => (now.dialog = "payment") })),
      list(...state.classes.map(([name, said]) => row({ name, media: "car", title: name, sub: said, after: h("span", { class: "price" }, dollars(cost(state, name, from, to))), picked: state.draft.class === name, act: (now) => (now.draft.class = name) })))),
    foot(button("order", `Order ${state.draft.class}`, book)),
  ] };
}

function ride(state) {
  const one = planned(state, state.item);
  return { parts: [
    bar("Your ride", { back: backFrom }),
    content("ride",
      card(h("div", { class: "big" }, one.to), pair("From", one.from), pair("Time", when(one)), pair("Class", one.class), pair("Payment", one.pay), pair("Price", dollars(cost(state, one.class, one.from, one.to))), pair("Note", one.note || "none")),
      h("div", { class: "pad" }, box({ name: "note", value: state.text, hint: "Note for the driver", picture: "edit", write: (now, text) => (now.text = text) })),
      h("div", { class: "pad" }, button("save note", "Save note", (now) => Object.assign(planned(now, now.item), { note: now.text.trim() }) && Object.assign(now, { text: "", focus: "" }), "button-tonal"))),
    foot(button("change time", "Change time", (now) => (now.dialog = "time"), "button-tonal"), button("cancel ride", "Cancel ride", (now) => (now.dialog = "cancel"), "danger")),
  ] };
}

function trips(state) {
  const segments = ["planned", "past"].map((name) => chip(name, name === "planned" ? "Planned" : "Past", state.segment === name, (now) => (now.segment = name)));
  const rides = state.rides.map((one) => row({ name: `ride ${one.to}`, media: "clock", title: one.to, sub: `${when(one)}, ${one.class}`, after: dollars(cost(state, one.class, one.from, one.to)), act: (now) => go(now, "ride", { item: one.to, text: "" }) }));
  const past = state.trips.map((one) => row({ name: `trip ${one.to}`, media: "car", title: one.to, sub: `${one.day}, ${one.class}`, after: one.stars ? `${one.stars} stars` : "not rated", act: (now) => go(now, "receipt", { item: one.to }) }));
  const rows = state.segment === "planned" ? rides : past;
  return { parts: [bar("Trips"), h("div", { class: "segments" }, ...segments), content(state.segment, rows.length ? list(...rows) : empty("No rides here."))] };
}

function receipt(state) {
  const one = state.trips.find(({ to }) => to === state.item);
  const stars = [1, 2, 3, 4, 5].map((n) => tool(`star ${n}`, "star", (now) => (now.trips.find(({ to }) => to === now.item).stars = n), n <= one.stars));
  const tips = state.tips.map((n) => chip(`tip ${n}`, `$${n}`, one.tip === n, (now) => {
    const trip = now.trips.find(({ to }) => to === now.item);
    trip.tip = trip.tip === n ? 0 : n;
  }));
  return { parts: [
    bar("Receipt", { back: backFrom }),
    content("receipt",
      card(h("div", { class: "big" }, one.to), pair("Day", one.day), pair("Class", one.class), pair("Driver", one.driver), pair("Price", dollars(one.price)), pair("Paid with", one.pay)),
      label("RATE YOUR DRIVER"), h("div", { class: "stars" }, ...stars), label("TIP"), h("div", { class: "chips grid" }, ...tips)),
    foot(button("ride again", "Ride again", (now) => draw(now, one.to))),
  ] };
}

function account(state) {
  const saved = (slot, picture) => row({ name: slot, media: picture, title: state[slot] || "not set", sub: slot === "home" ? "Home" : "Work", after: "Change", act: (now) => find(now, slot) });
  const cards = state.cards.map((name) => row({ name, media: "card", title: name, after: state.pay === name ? h("span", { class: "mark" }, icon("check")) : "", act: (now) => (now.pay = name) }));
  const liked = state.favourites.map((name) => row({ name, media: "heart", title: name, sub: place(state, name).street, act: (now) => go(now, "place", { place: name }) }));
  const parts = { payment: [label("PAYMENT"), list(...cards)], saved: [label("SAVED PLACES"), list(saved("home", "home"), saved("work", "briefcase"))], liked: [label("FAVOURITES"), liked.length ? list(...liked) : empty("No favourites yet.")] };
  return { parts: [bar("Account"), content("account", ...state.layout.account.flatMap((name) => parts[name]))] };
}

// --- what lies over a screen ---
function over(state) {
  const one = state.screen === "ride" ? planned(state, state.item) : state.draft;
  const target = (now) => (now.screen === "ride" ? planned(now, now.item) : now.draft);
  if (state.dialog === "time")
    return sheet("Time",
      h("div", { class: "pad" }, button("now", "As soon as possible", (now) => Object.assign(target(now), { day: "", time: "" }) && (now.dialog = ""), "button-tonal")),
      label("DAY"), h("div", { class: "chips grid" }, ...state.days.map((day) => chip(day, day, one.day === day, (now) => Object.assign(target(now), { day, time: target(now).time || now.times[0] })))),
      label("TIME"), h("div", { class: "chips grid" }, ...state.times.map((time) => chip(time, time, one.time === time, (now) => Object.assign(target(now), { time, day: target(now).day || now.days[0] })))),
      h("div", { class: "pad" }, button("done", "Done", (now) => (now.dialog = ""))));
  if (state.dialog === "payment")
    return sheet("Payment", list(...state.cards.map((name) => row({ name, media: "card", title: name, picked: state.draft.pay === name, act: (now) => { now.draft.pay = name; now.dialog = ""; } }))));
  if (state.dialog === "cancel")
    return ask("Cancel this ride?", `${one.to}, ${when(one)}`, button("keep ride", "Keep", (now) => (now.dialog = ""), "button-tonal"), button("confirm cancel", "Cancel it", (now) => cancel(now, now.item), "danger"));
  if (state.dialog === "refused")
    return ask("Not possible", state.draft.from === state.draft.to ? "A ride ends somewhere else." : "There is a ride to this place already.", button("close", "Close", (now) => (now.dialog = "")));
  return null;
}

const SCREENS = { map: home, search, place: placeScreen, route, ride, trips, receipt, account };
const TAB_OF = { map: "map", place: "map", route: "map", ride: "trips", trips: "trips", receipt: "trips", account: "account" };
const known = (state, name) => { if (!place(state, name)) throw Error(`there is no place ${name}`); };

let shown = null;
phone({
  screen(state) {
    if (drawn) drawn.remove();
    drawn = null;
    shown = SCREENS[state.screen](state);
    const bottom = [["map", "pin"], ["trips", "clock"], ["account", "user"]].map(([name, picture]) => [name, picture, TAB_OF[state.screen] === name, (now) => go(now, name)]);
    const node = framed(state, shown.parts, { tabs: shown.bare ? null : tabs(state, bottom), over: over(state) });
    if (shown.small) node.classList.add("small");
    return node;
  },
  drawn: (state) => shown.map && drawMap(state, shown.map),
  button(state, name) {
    if (name === "Home") go(state, "map");
    else if (name === "Back" && state.dialog) state.dialog = "";
    else if (name === "Back") backFrom(state);
  },
  tools: {
    "ride.order"(state, { to, class: name, from, day, time }) {
      known(state, to);
      const start = from ?? state.here;
      known(state, start);
      if (!state.classes.some(([other]) => other === name)) throw Error(`there is no class ${name}`);
      if (start === to) throw Error("a ride ends somewhere else");
      if (planned(state, to)) throw Error(`there is a ride to ${to} already`);
      if ((day === undefined) !== (time === undefined)) throw Error("day and time go together");
      if (day !== undefined && !(state.days.includes(day) && state.times.includes(time))) throw Error(`there are no cars at ${day}, ${time}`);
      state.rides.push({ from: start, to, class: name, pay: state.pay, day: day ?? "", time: time ?? "", note: "" });
      return { to, price: dollars(cost(state, name, start, to)) };
    },
    "ride.cancel"(state, { to }) {
      if (!planned(state, to)) throw Error(`there is no ride to ${to}`);
      state.rides = state.rides.filter((one) => one.to !== to);
      if (state.screen === "ride" && state.item === to) go(state, "trips", { item: "", segment: "planned" });
      return { to };
    },
    "ride.rate"(state, { to, stars }) {
      const trip = state.trips.find((one) => one.to === to);
      if (!trip) throw Error(`there was no trip to ${to}`);
      if (!Number.isInteger(stars) || stars < 1 || stars > 5) throw Error("stars must be a whole number from 1 to 5");
      trip.stars = stars;
      return { to, stars };
    },
    "ride.set_favourite"(state, { place: name, favourite }) {
      known(state, name);
      if (state.favourites.includes(name) !== favourite) like(state, name);
      return { place: name, favourite };
    },
  },
});
