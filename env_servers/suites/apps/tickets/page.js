// Tickets: films with their shows, trains between cities, a plan of seats, a basket with extras, one's own tickets.
"use strict";

const dollars = (cents) => `$${Math.floor(cents / 100)}.${String(cents % 100).padStart(2, "0")}`;
const HUES = ["#7c2d12", "#1e3a8a", "#14532d", "#581c87", "#831843", "#134e4a", "#713f12", "#312e81"];
const PLANS = { film: { rows: 8, columns: 8 }, train: { rows: 11, columns: 4 } };
const film = (state, title) => state.films.find((one) => one.title === title);
const owned = (state, title) => state.tickets.find((one) => one.title === title);
const seatName = (row, column) => `${String.fromCharCode(65 + row)}${column + 1}`;
// Whether a seat is taken: a formula over the offer's number and the day's, the same as state.py's.
const taken = (state, { salt, day }, row, column) => ((salt + 53 * state.days.indexOf(day)) * 7919 + (row * 13 + column) * 4729) % 1009 % 10 < 4;
const total = (state, draft) => {
  const extras = state.extras[draft.kind].reduce((sum, [name, cents]) => sum + cents * (draft.extras[name] ?? 0), 0);
  const off = state.codes.find(([code]) => code === draft.code)?.[1] ?? 0;
  return Math.floor(((draft.seats.length * draft.price + extras) * (100 - off)) / 100);
};
const go = (state, screen, more = {}) => Object.assign(state, { screen, dialog: "", focus: "", ...more });
const offer = (state, kind, one, day) => {
  state.draft = { kind, title: one.title, day, time: one.time, hall: one.hall, price: one.price, salt: one.salt, seats: [], extras: {}, code: "", pay: state.pay, of: "" };
  go(state, "seats");
};
const toggle = (state, name) => {
  const { seats } = state.draft;
  const at = seats.indexOf(name);
  if (at >= 0) seats.splice(at, 1);
  else if (seats.length < 6) seats.push(name);
  seats.sort();
};
const onward = (state) => {
  const { draft } = state;
  if (!draft.of) return draft.seats.length ? go(state, "basket") : null;
  const ticket = owned(state, draft.of);
  if (ticket.seats.length !== draft.seats.length) return (state.dialog = "count");
  ticket.seats = draft.seats;
  go(state, "ticket", { item: draft.of });
};
const buy = (state, draft) => {
  const { kind, title, day, time, hall, salt, price, seats, extras, pay } = draft;
  const code = state.codes.some(([name]) => name === draft.code) ? draft.code : "";
  state.tickets.push({ kind, title, day, time, hall, salt, price, seats, extras: { ...extras }, code, pay, paid: total(state, draft), sent: "" });
};
const pay = (state) => {
  if (owned(state, state.draft.title)) return (state.dialog = "refused");
  buy(state, state.draft);
  go(state, "ticket", { item: state.draft.title, text: "" });
};
const refund = (state, title) => {
  state.tickets = state.tickets.filter((one) => one.title !== title);
  if (state.item === title && (state.screen === "ticket" || state.draft.of === title)) go(state, "mine", { item: "" });
};
const watch = (state, title) => {
  const at = state.watched.indexOf(title);
  at < 0 ? state.watched.push(title) : state.watched.splice(at, 1);
};
const backFrom = (state) => {
  const { kind, of, title } = state.draft;
  const ways = { film: ["films"], results: ["trains"], ticket: ["mine"], basket: ["seats"], seats: of ? ["ticket", { item: of }] : kind === "film" ? ["film", { item: title }] : ["results"] };
  if (ways[state.screen]) go(state, ...ways[state.screen]);
};

// --- screens ---
const poster = (state, title, large) => {
  const at = state.films.findIndex((one) => one.title === title);
  return h("div", { class: `poster ${large ? "large" : ""}`, style: `background: ${HUES[(at + state.layout.accent) % HUES.length]}` }, title.replace("The ", "")[0]);
};

function films(state) {
  const wanted = state.query.trim().toLowerCase();
  const found = state.films.filter(({ title, genre }) => title.toLowerCase().includes(wanted) && ["", genre].includes(state.genre));
  const genres = [...new Set(state.films.map(({ genre }) => genre))];
  const rows = found.map(({ title, genre, minutes, age }) => row({ name: title, media: poster(state, title), title, sub: `${genre}, ${minutes} min, ${age}+`, after: state.watched.includes(title) ? icon("heart", 16, true) : "", act: (now) => go(now, "film", { item: title }) }));
  const chips = h("div", { class: "chips" }, chip("all", "All", !state.genre, (now) => (now.genre = "")), ...genres.map((genre) => chip(genre, genre, state.genre === genre, (now) => (now.genre = genre))));
  return { parts: [bar(state.layout.brand), h("div", { class: "pad" }, box({ name: "search", value: state.query, hint: "Search films", picture: "search", write: (now, text) => (now.query = text) })), chips, content("films", rows.length ? list(...rows) : empty("No film found."))] };
}

function filmScreen(state) {
  const { title, genre, minutes, age, shows } = film(state, state.item);
  const watched = state.watched.includes(title);
  return { parts: [
    bar(title, { back: backFrom, tools: [tool(watched ? "unwatch" : "watch", "heart", (now) => watch(now, title), watched)] }),
    content("film",
      h("div", { class: "about" }, poster(state, title, true), h("div", {}, pair("Genre", genre), pair("Length", `${minutes} min`), pair("Age", `from ${age}`), pair("Watchlist", watched ? "yes" : "no"))),
      label("DAY"), h("div", { class: "chips grid" }, ...state.days.map((day) => chip(day, day, state.day === day, (now) => (now.day = day)))),
      label("SHOWS"), list(...shows.map((show) => row({ name: `show ${show.time}`, media: "film", title: show.time, sub: show.hall, after: dollars(show.price), act: (now) => offer(now, "film", { ...show, title }, now.day) })))),
  ] };
}

function trains(state) {
  const { from, to, day } = state.trip;
  const city = (slot, value, said) => row({ name: slot, media: "train", title: value || "Choose a city", sub: said, after: "Change", act: (now) => (now.dialog = slot) });
  return { parts: [
    bar("Trains"),
    content("trains", list(city("from", from, "From"), city("to", to, "To")), label("DAY"), h("div", { class: "chips grid" }, ...state.days.map((one) => chip(one, one, day === one, (now) => (now.trip.day = one)))),
      h("div", { class: "pad" }, button("find trains", "Find trains", (now) => now.trip.from && now.trip.to && now.trip.from !== now.trip.to && go(now, "results"), from && to && from !== to ? "button-fill" : "button-fill off"))),
  ] };
}

const between = (state, { from, to }) => state.trains.find((one) => one.from === from && one.to === to)?.runs ?? [];
function results(state) {
  const { from, to, day } = state.trip;
  const rows = between(state, state.trip).map((run) => row({ name: `train ${run.time}`, media: "train", title: `${run.time} to ${run.arrive}`, sub: run.hall, after: dollars(run.price), act: (now) => offer(now, "train", { ...run, title: `${from} to ${to}` }, day) }));
  return { parts: [bar(`${from} to ${to}`, { back: backFrom }), content("results", label(day.toUpperCase()), rows.length ? list(...rows) : empty("No train runs between these cities."))] };
}

function seats(state) {
  const { draft } = state;
  const { rows, columns } = PLANS[draft.kind];
  const mine = draft.of ? owned(state, draft.of).seats : [];
  const shape = state.layout.seats === "round" ? "round" : "";
  const aisle = draft.kind === "film" ? state.layout.aisle : 2;
  const line = (r) => h("div", { class: "seats" }, h("span", { class: "side" }, String.fromCharCode(65 + r)), ...Array.from({ length: columns }, (_, c) => {
    const name = seatName(r, c);
    const gone = taken(state, draft, r, c) && !mine.includes(name);
    const on = draft.seats.includes(name);
    return [c === aisle && h("span", { class: "aisle" }), h("a", { class: `seat ${shape} ${gone ? "taken" : ""} ${on ? "on" : ""}`, name: gone ? null : `seat ${name}`, onclick: gone ? undefined : tapped((now) => toggle(now, name)) }, c + 1)];
  }));
  const sample = (style, text) => h("span", {}, h("span", { class: `seat ${style}` }), text);
  return { bare: true, parts: [
    bar(draft.title, { back: backFrom }),
    content("seats", label(`${draft.day}, ${draft.time}, ${draft.hall}`),
      h("div", { class: `plan ${draft.kind === "train" ? "coach" : ""}` }, draft.kind === "film" && h("div", { class: "screen-bar" }, "screen"), ...Array.from({ length: rows }, (_, r) => line(r))),
      h("div", { class: "key" }, sample("", "free"), sample("taken", "taken"), sample("on", "chosen"))),
    foot(h("div", { class: "words" }, draft.seats.length ? draft.seats.join(", ") : "No seat chosen"), button(draft.of ? "save seats" : "continue", draft.of ? "Save seats" : `Continue, ${dollars(draft.price * draft.seats.length)}`, onward, draft.seats.length ? "button-fill" : "button-fill off")),
  ] };
}

function basket(state) {
  const { draft } = state;
  const some = (name, by) => (now) => {
    const count = Math.min(9, Math.max(0, (now.draft.extras[name] ?? 0) + by));
    if (count) now.draft.extras[name] = count;
    else delete now.draft.extras[name];
  };
  const off = state.codes.find(([code]) => code === draft.code);
  const said = off ? `${off[1]} per cent off` : draft.code ? "This code is not known." : "";
  return { bare: true, parts: [
    bar("Basket", { back: backFrom }),
    content("basket",
      card(h("div", { class: "big" }, draft.title), pair("When", `${draft.day}, ${draft.time}`), pair("Seats", draft.seats.join(", ")), pair("Price", `${draft.seats.length} x ${dollars(draft.price)}`)),
      list(...state.extras[draft.kind].map(([name, cents]) => row({ title: name, sub: dollars(cents), after: stepper(name, draft.extras[name] ?? 0, some(name, -1), some(name, 1)) }))),
      h("div", { class: "pad" }, box({ name: "code", value: draft.code, hint: "Promotion code", picture: "gift", write: (now, text) => (now.draft.code = text) }), said && h("div", { class: "label" }, said)),
      list(row({ name: "payment", media: "card", title: draft.pay, sub: "Payment", after: "Change", act: (now) => (now.dialog = "payment") }))),
    foot(button("pay", `Pay ${dollars(total(state, draft))}`, pay)),
  ] };
}

function mine(state) {
  const rows = state.tickets.map((one) => row({ name: `ticket ${one.title}`, media: one.kind, title: one.title, sub: `${one.day}, ${one.time}`, after: one.sent ? `for ${one.sent}` : "", act: (now) => go(now, "ticket", { item: one.title, text: "" }) }));
  return { parts: [bar("My tickets"), content("mine", rows.length ? list(...rows) : empty("No tickets yet."))] };
}

function ticket(state) {
  const one = owned(state, state.item);
  const extras = Object.keys(one.extras).sort().map((name) => `${one.extras[name]} ${name}`).join(", ");
  const change = (now) => {
    now.draft = { kind: one.kind, title: one.title, day: one.day, time: one.time, hall: one.hall, price: one.price, salt: one.salt, seats: [...one.seats], extras: {}, code: "", pay: one.pay, of: one.title };
    go(now, "seats");
  };
  return { parts: [
    bar("Ticket", { back: backFrom }),
    content("ticket",
      h("div", { class: "card stub" }, h("div", { class: "big" }, one.title), pair("When", `${one.day}, ${one.time}`), pair(one.kind === "film" ? "Hall" : "Train", one.hall), pair("Seats", one.seats.join(", ")), pair("Extras", extras || "none"), pair("Paid", `${dollars(one.paid)} with ${one.pay}`), pair("For", one.sent || "me")),
      h("div", { class: "pad" }, box({ name: "person", value: state.text, hint: "Send it to", picture: "user", write: (now, text) => (now.text = text) })),
      h("div", { class: "pad" }, button("send", "Send ticket", (now) => { if (now.text.trim()) Object.assign(owned(now, now.item), { sent: now.text.trim() }); Object.assign(now, { text: "", focus: "" }); }, "button-tonal"))),
    foot(button("change seats", "Change seats", change, "button-tonal"), button("refund", "Refund", (now) => (now.dialog = "refund"), "danger")),
  ] };
}

function over(state) {
  const close = (now) => (now.dialog = "");
  if (state.dialog === "from" || state.dialog === "to")
    return sheet(state.dialog === "from" ? "From" : "To", list(...state.cities.map((name) => row({ name: `city ${name}`, media: "pin", title: name, picked: state.trip[state.dialog] === name, act: (now) => { now.trip[now.dialog] = name; now.dialog = ""; } }))));
  if (state.dialog === "payment")
    return sheet("Payment", list(...state.cards.map((name) => row({ name, media: "card", title: name, picked: state.draft.pay === name, act: (now) => { now.draft.pay = name; now.dialog = ""; } }))));
  if (state.dialog === "refund")
    return ask("Refund this ticket?", `${state.item}, ${dollars(owned(state, state.item).paid)}`, button("keep ticket", "Keep", close, "button-tonal"), button("confirm refund", "Refund it", (now) => refund(now, now.item), "danger"));
  if (state.dialog === "refused") return ask("Not possible", "You have a ticket for this already.", button("close", "Close", close));
  if (state.dialog === "count") return ask("Not possible", "Choose as many seats as the ticket has.", button("close", "Close", close));
  return null;
}

const SCREENS = { films, film: filmScreen, trains, results, seats, basket, mine, ticket };
const TAB_OF = { films: "films", film: "films", trains: "trains", results: "trains", mine: "tickets", ticket: "tickets" };
const free = (state, given, name) => {
  const { rows, columns } = PLANS[given.kind];
  const [r, c] = [String(name).charCodeAt(0) - 65, Number(String(name).slice(1)) - 1];
  if (!(r >= 0 && r < rows && c >= 0 && c < columns && seatName(r, c) === name)) throw Error(`there is no seat ${name}`);
  if (taken(state, given, r, c)) throw Error(`the seat ${name} is taken`);
};
const bought = (state, kind, one, day, names) => {
  if (!one) throw Error("there is no such show or train");
  if (!state.days.includes(day)) throw Error(`nothing is sold for ${day}`);
  if (owned(state, one.title)) throw Error(`there is a ticket for ${one.title} already`);
  if (!Array.isArray(names) || !names.length || names.length > 6 || new Set(names).size < names.length) throw Error("seats must be 1 to 6 different seats");
  const draft = { ...one, kind, day, seats: [...names].sort(), extras: {}, code: "", pay: state.pay, of: "" };
  for (const name of names) free(state, draft, name);
  buy(state, draft);
  return { title: one.title, paid: dollars(total(state, draft)) };
};

phone({
  screen(state) {
    const { parts, bare } = SCREENS[state.screen](state);
    const bottom = [["films", "film"], ["trains", "train"], ["tickets", "ticket"]].map(([name, picture]) => [name, picture, TAB_OF[state.screen] === name, (now) => go(now, name === "tickets" ? "mine" : name)]);
    return framed(state, parts, { tabs: bare ? null : tabs(state, bottom), over: over(state) });
  },
  button(state, name) {
    if (name === "Home") go(state, "films");
    else if (name === "Back" && state.dialog) state.dialog = "";
    else if (name === "Back") backFrom(state);
  },
  tools: {
    "tickets.buy_film": (state, { title, day, time, seats: names }) => {
      const show = film(state, title)?.shows.find((one) => one.time === time);
      return bought(state, "film", show && { ...show, title }, day, names);
    },
    "tickets.buy_train": (state, { from, to, day, time, seats: names }) => {
      const run = between(state, { from, to }).find((one) => one.time === time);
      return bought(state, "train", run && { ...run, title: `${from} to ${to}` }, day, names);
    },
    "tickets.refund"(state, { title }) {
      if (!owned(state, title)) throw Error(`there is no ticket for ${title}`);
      refund(state, title);
      return { title };
    },
    "tickets.set_watched"(state, { title, watched }) {
      if (!film(state, title)) throw Error(`there is no film ${title}`);
      if (state.watched.includes(title) !== watched) watch(state, title);
      return { title, watched };
    },
  },
});
