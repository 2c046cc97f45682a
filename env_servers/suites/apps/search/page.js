// Search: a search engine, the pages it finds, bookmarks, and booking forms with a calendar and checks before sending.
"use strict";

const YEAR = 2027;
const MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
const DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
const FIRST_DAY = 4; // 1 January 2027 is a Friday; Monday is 0
const TABS = ["All", "Hotels", "Courses", "Tours", "News"];
const NOUN = { Hotels: "hotel", Courses: "course", Tours: "tour", News: "news" };
const OPTIONS = {
  Hotels: ["Room", ["Single", "Double", "Family", "Suite"]],
  Courses: ["Level", ["Beginner", "Middle", "Advanced", "Private"]],
  Tours: ["Language", ["English", "French", "German", "Spanish"]],
};
const EXTRAS = {
  Hotels: ["Breakfast", "Parking", "Late checkout"],
  Courses: ["Materials", "Certificate", "Lunch"],
  Tours: ["Audio guide", "Pick-up", "Snacks"],
};
const PAYMENTS = ["Card", "Invoice", "Cash"];
const COUNTS = ["1", "2", "3", "4", "5", "6"];
const EMPTY = { name: "", mail: "", phone: "", option: "", count: "", date: "", pay: "", extras: [], code: "", remark: "", terms: false };
const NEEDED = [
  ["name", "your name"], ["mail", "your mail address"], ["option", "what you want to book"], ["count", "for how many"],
  ["date", "the date"], ["pay", "how you pay"], ["terms", "that you accept the terms"],
];

const act = (how) => () => app.change(how);
const pageOf = (state, name) => find(state.pages, (page) => page.name.toLowerCase() === String(name).trim().toLowerCase(), `page ${name}`);
const atPage = (state) => state.pages[state.at.id];
const bookingOf = (state, id) => state.bookings.find((booking) => booking.id === id);

function results(state) {
  const words = state.query.toLowerCase().split(/\s+/).filter(Boolean);
  return state.pages.filter((page) => {
    const text = [page.name, page.city, NOUN[page.kind], page.kind, ...page.lines].join(" ").toLowerCase();
    return words.every((word) => text.includes(word)) && (state.tab === "All" || page.kind === state.tab) && (!state.region || page.city === state.region);
  });
}
function search(state, text) {
  if (!text.trim()) return;
  go(state, { page: "results" });
  Object.assign(state, { query: text.trim(), typed: text.trim(), tab: "All", region: "", picker: -1 });
}
function openPage(state, id) {
  if (!state.visited.includes(id)) state.visited = [...state.visited, id].sort((a, b) => a - b);
  go(state, { page: "page", id });
}
function mark(state, id) {
  state.bookmarks = state.bookmarks.includes(id) ? state.bookmarks.filter((other) => other !== id) : [...state.bookmarks, id].sort((a, b) => a - b);
}
function openForm(state, id) {
  if (bookingOf(state, id)) return go(state, { page: "bookings" });
  if (!state.drafts[id]) state.drafts[id] = structuredClone(EMPTY);
  Object.assign(state, { picker: -1, wrong: "" });
  go(state, { page: "form", id });
}
function lacking(form) {
  const missing = NEEDED.find(([key]) => !(typeof form[key] === "string" ? form[key].trim() : form[key]));
  if (missing) return [missing[0], `Please enter ${missing[1]}.`];
  if (!/^\S+@\S+\.\S+$/.test(form.mail.trim())) return ["mail", "This is no mail address."];
  return ["", ""];
}
const reference = (id, state) => `R${4100 + 37 * id + 11 * state.bookings.length}`;
function book(state, id, form) {
  state.bookings = [...state.bookings, { ...form, id, number: reference(id, state) }];
  delete state.drafts[id];
}
function send(state) {
  const { id } = state.at;
  const [key, text] = lacking(state.drafts[id]);
  state.wrong = key;
  if (key) {
    state.dialog = { icon: "error", title: "Something is missing", text, ok: "OK", then: "" };
    return;
  }
  book(state, id, state.drafts[id]);
  state.past = state.past.filter((at) => at.page !== "form" || at.id !== id);
  go(state, { page: "bookings" });
  state.past = state.past.filter((at) => at.page !== "form" || at.id !== id);
  state.dialog = { icon: "success", title: "Booked", text: `${state.pages[id].name}: your number is ${bookingOf(state, id).number}.`, ok: "OK", then: "" };
}
const cancel = (state, id) => (state.bookings = state.bookings.filter((booking) => booking.id !== id));

// --- what is drawn ---------------------------------------------------------------------------------------------------
const box = (state) => [
  entry("search box", state.typed, (text) => (app.now().typed = text), { placeholder: "Search hotels, courses, tours and news", onkeydown: enter(act((now) => search(now, now.typed))) }),
  h("button", { name: "search", class: "press main", onclick: act((now) => search(now, now.typed)) }, "Search"),
];

function header(state) {
  const link = (name, text, page) => press(name, text, act((now) => go(now, { page })), state.at.page === page ? "plain on" : "plain");
  return h("header", { class: "bar" },
    h("button", { name: "home", class: "brand press plain", onclick: act((now) => {
      go(now, { page: "home" });
      now.typed = "";
    }) }, state.layout.brand),
    h("div", { class: "find" }, state.at.page === "home" ? null : box(state)),
    link("bookmarks", "Bookmarks", "bookmarks"), link("bookings", "Bookings", "bookings"),
    state.drafts[state.started] ? press("started booking", "Started booking", act((now) => openForm(now, now.started)), state.at.page === "form" && state.at.id === state.started ? "plain on" : "plain") : null,
  );
}

const homePage = (state) => h("div", { class: "home", "data-main": "" },
  h("div", { class: "logo" }, [...state.layout.brand].map((letter, k) => h("span", { class: `l${k % 3}` }, letter))),
  h("div", { class: "find" }, box(state)),
  h("div", { class: "muted" }, `Popular: ${state.popular.join(", ")}`));

function hit(state, page) {
  const marked = state.bookmarks.includes(page.id);
  return h("div", { class: "hit" },
    h("div", { class: "site muted" }, h("span", { class: "dot" }, page.kind[0]), `https://${page.url}`),
    h("button", { name: `link ${page.name}`, class: `link ${state.visited.includes(page.id) ? "seen" : ""}`, onclick: act((now) => openPage(now, page.id)) }, `${page.name} \u2013 ${page.city}`),
    h("button", { name: `star of ${page.name}`, class: `star ${marked ? "on" : ""}`, onclick: act((now) => mark(now, page.id)) }, marked ? "\u2605" : "\u2606"),
    h("div", {}, page.lines.slice(0, 2).join(" ")));
}

function resultsPage(state) {
  const found = results(state);
  return [
    h("div", { class: "tabs" },
      TABS.map((tab) => h("button", { name: `${tab} tab`, class: `tab ${state.tab === tab ? "on" : ""}`, onclick: act((now) => {
        now.scroll = 0;
        now.tab = tab;
      }) }, tab)),
      h("span", { class: "muted" }, "Region"),
      choice("region list", ["", ...state.regions], state.region, (region) => app.change((now) => Object.assign(now, { region, scroll: 0 })), { blank: "All regions" })),
    h("div", { class: "hits", "data-main": "" }, h("div", { class: "muted" }, `${found.length} result${found.length === 1 ? "" : "s"} for "${state.query}"`), found.map((page) => hit(state, page))),
  ];
}

function sitePage(state) {
  const page = atPage(state);
  const facts = page.kind === "News" ? [] : [
    ["Price", `${page.price} euros per ${{ Hotels: "night", Courses: "term", Tours: "person" }[page.kind]}`], ["Phone", page.phone], ["Opens at", page.opens], ["Town", page.city], [OPTIONS[page.kind][0], OPTIONS[page.kind][1].join(", ")],
  ];
  const marked = state.bookmarks.includes(page.id);
  return h("div", { class: "sheet", "data-main": "" },
    h("div", { class: `banner b${state.layout.banner}` }, h("div", { class: "kind" }, page.kind === "News" ? "News" : NOUN[page.kind]), h("h1", {}, page.name)),
    page.lines.map((line) => h("p", {}, line)),
    facts.length ? h("table", {}, facts.map(([name, text]) => h("tr", {}, h("th", {}, name), h("td", {}, text)))) : null,
    h("div", { class: "ends" },
      page.kind === "News" ? null : press("book", bookingOf(state, page.id) ? "See your booking" : "Book now", act((now) => openForm(now, page.id)), "main"),
      press("bookmark", marked ? "\u2605 Bookmarked" : "\u2606 Bookmark", act((now) => mark(now, page.id)))));
}

function calendar(state, form) {
  const month = state.picker;
  const offset = (FIRST_DAY + DAYS.slice(0, month).reduce((sum, days) => sum + days, 0)) % 7;
  const turn = (by) => act((now) => (now.picker = (now.picker + by + 12) % 12));
  return h("div", { class: "calendar" },
    h("div", { class: "month" }, press("previous month", "\u2039", turn(-1)), h("b", {}, `${MONTHS[month]} ${YEAR}`), press("next month", "\u203a", turn(1))),
    h("div", { class: "days" }, ["Mo", "Tu", "We", "Th", "Fr", "Sa", "Su"].map((day) => h("span", { class: "muted" }, day)),
      Array.from({ length: offset }, () => h("span", {})),
      Array.from({ length: DAYS[month] }, (_, k) => {
        const text = `${k + 1} ${MONTHS[month]} ${YEAR}`;
        return h("button", { name: `day ${k + 1}`, class: `day ${form.date === text ? "on" : ""}`, onclick: act((now) => {
          now.drafts[now.at.id].date = text;
          now.picker = -1;
        }) }, String(k + 1));
      })));
}

function formPage(state) {
  const page = atPage(state);
  const form = state.drafts[page.id];
  const mine = (now) => now.drafts[page.id];
  const type = (key) => (text) => (mine(app.now())[key] = text);
  const set = (key) => (value) => app.change((now) => (mine(now)[key] = value));
  const line = (key, text, ...nodes) => h("div", { class: `line ${state.wrong === key ? "wrong" : ""}` }, h("span", { class: "text" }, text), h("div", { class: "field" }, nodes));
  const tick = (name, kind, on, text, then) => h("button", { name, class: `tick ${kind} ${on ? "on" : ""}`, onclick: act(then) }, h("span", { class: "mark" }, on ? (kind === "round" ? "\u25cf" : "\u2713") : ""), text);
  const groups = {
    who: [
      line("name", "Name *", entry("name box", form.name, type("name"), { placeholder: "First and last name" })),
      line("mail", "Mail address *", entry("mail box", form.mail, type("mail"), { placeholder: "name@post.example" })),
      line("phone", "Phone", entry("phone box", form.phone, type("phone"))),
    ],
    what: [
      line("option", `${OPTIONS[page.kind][0]} *`, choice("option list", ["", ...OPTIONS[page.kind][1]], form.option, set("option"))),
      line("count", "Persons *", choice("persons list", ["", ...COUNTS], form.count, set("count"))),
      line("date", "Date *", h("button", { name: "date box", class: "entry date", onclick: act((now) => (now.picker = now.picker < 0 ? (mine(now).date ? MONTHS.indexOf(mine(now).date.split(" ")[1]) : now.month) : -1)) }, form.date || "Choose a date"), state.picker < 0 ? null : calendar(state, form)),
    ],
    how: [
      line("pay", "Payment *", PAYMENTS.map((name) => tick(`${name} button`, "round", form.pay === name, name, (now) => (mine(now).pay = name)))),
      line("extras", "Extras", EXTRAS[page.kind].map((name) => tick(`${name} box`, "square", form.extras.includes(name), name, (now) => {
        const had = mine(now).extras;
        mine(now).extras = had.includes(name) ? had.filter((other) => other !== name) : [...had, name].sort();
      }))),
      line("code", "Discount code", entry("code box", form.code, type("code"))),
      line("remark", "Remark", entry("remark box", form.remark, type("remark"), { tall: true, rows: 3 })),
    ],
  };
  return h("div", { class: "sheet form", "data-main": "" },
    h("h1", {}, `Booking: ${page.name}`), h("div", { class: "muted" }, `${page.city} \u00b7 ${page.price} euros \u00b7 fields with * are needed`),
    ["who", "what", "how"].map((key, k) => [h("h3", {}, `${k + 1}. ${{ who: "About you", what: "Your booking", how: "Payment and wishes" }[key]}`), groups[key]]),
    line("terms", "", tick("terms box", "square", form.terms, "I accept the terms of booking *", (now) => (mine(now).terms = !mine(now).terms))),
    h("div", { class: "ends" }, press("send", "Send booking", act(send), "main"), press("page", "Back to the page", act((now) => openPage(now, page.id)))));
}

const bookmarksPage = (state) => h("div", { class: "hits", "data-main": "" }, h("h1", {}, "Bookmarks"),
  state.bookmarks.map((id) => hit(state, state.pages[id])), state.bookmarks.length ? null : h("p", { class: "muted" }, "No bookmarks yet."));

const bookingsPage = (state) => h("div", { class: "hits", "data-main": "" }, h("h1", {}, "Your bookings"),
  state.bookings.map((booking) => {
    const page = state.pages[booking.id];
    return h("div", { class: "booking" },
      h("div", {}, h("b", {}, page.name), h("span", { class: "muted" }, ` ${page.city}, number ${booking.number}`), h("div", {}, `${booking.date} \u00b7 ${booking.option} \u00b7 ${booking.count} person${booking.count === "1" ? "" : "s"}`), h("div", { class: "muted" }, `${booking.name}, paid by ${booking.pay.toLowerCase()}`)),
      press(`cancel ${page.name}`, "Cancel", act((now) => (now.dialog = { icon: "warning", title: "Cancel this booking?", text: `${page.name}, ${booking.date}`, ok: "Yes, cancel it", cancel: "Keep it", then: page.name }))));
  }), state.bookings.length ? null : h("p", { class: "muted" }, "No bookings."));

const PAGES = { home: homePage, results: resultsPage, page: sitePage, form: formPage, bookmarks: bookmarksPage, bookings: bookingsPage };
const popup = dialogs((yes) => app.change((now) => {
  if (yes && now.dialog?.then) cancel(now, pageOf(now, now.dialog.then).id);
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
    root.replaceChildren(header(state), h("main", { class: state.layout.form }, [PAGES[state.at.page](state)].flat()));
    showScroll(state);
    popup.show(state.dialog);
  },
  button(state, name) {
    if (name !== "Back") return;
    state.picker = -1;
    back(state);
  },
  goto(state, url) {
    const bare = String(url).trim().toLowerCase().replace(/^[a-z]+:\/\//, "").replace(/^www\./, "").replace(/\/$/, "");
    const page = state.pages.find((one) => one.url === bare);
    const path = pathOf(url);
    const query = path.match(/^\/search[?\/](?:q=)?(.+)$/);
    if (page) openPage(state, page.id);
    else if (query) search(state, query[1].replaceAll("+", " "));
    else go(state, { page: { "/bookmarks": "bookmarks", "/bookings": "bookings" }[path] ?? "home" });
  },
  tools: {
    "search.find_pages"(state, { query }) {
      search(state, query);
      return results(state).map((page) => page.name);
    },
    "search.read_page"(state, { name }) {
      const page = pageOf(state, name);
      openPage(state, page.id);
      return { text: page.lines.join(" "), price: page.price, phone: page.phone, opens: page.opens };
    },
    "search.bookmark_page"(state, { name }) {
      const { id } = pageOf(state, name);
      if (!state.bookmarks.includes(id)) mark(state, id);
      return { name };
    },
    "search.fill_field"(state, { field, value }) {
      const form = state.drafts[state.started];
      if (!form) throw Error("there is no started booking");
      const { kind } = state.pages[state.started];
      const allowed = { option: OPTIONS[kind][1], count: COUNTS, pay: PAYMENTS };
      if (allowed[field] && !allowed[field].includes(value)) throw Error(`${field} must be one of ${allowed[field].join(", ")}`);
      if (field === "extras") {
        if (!EXTRAS[kind].includes(value)) throw Error(`extras must be one of ${EXTRAS[kind].join(", ")}`);
        form.extras = [...new Set([...form.extras, value])].sort();
      } else if (typeof EMPTY[field] !== "string") throw Error(`there is no field ${field}`);
      else if (field === "date") form.date = checkedDate(value);
      else form[field] = String(value);
      return { field };
    },
    "search.book"(state, { place, name, mail, option, count, date, pay }) {
      const page = pageOf(state, place);
      if (page.kind === "News") throw Error(`${place} can not be booked`);
      if (bookingOf(state, page.id)) throw Error(`${place} is booked already`);
      const form = { ...structuredClone(EMPTY), name, mail, option, count: String(count), date: checkedDate(date), pay, terms: true };
      const wrong = !OPTIONS[page.kind][1].includes(option) ? "option" : !COUNTS.includes(form.count) ? "count" : !PAYMENTS.includes(pay) ? "pay" : lacking(form)[0];
      if (wrong) throw Error(`${wrong} is wrong`);
      book(state, page.id, form);
      if (state.at.page === "form") go(state, { page: "bookings" });
      state.past = state.past.filter((at) => at.page !== "form" || at.id !== page.id);
      return { number: bookingOf(state, page.id).number };
    },
    "search.cancel_booking"(state, { place }) {
      const { id } = pageOf(state, place);
      if (!bookingOf(state, id)) throw Error(`there is no booking at ${place}`);
      cancel(state, id);
      return { place };
    },
  },
});

function checkedDate(text) {
  const [day, month, year] = String(text).split(" ");
  const days = DAYS[MONTHS.indexOf(month)];
  if (!days || !(Number(day) >= 1 && Number(day) <= days) || year !== String(YEAR)) throw Error(`date must be like 14 May ${YEAR}`);
  return `${Number(day)} ${month} ${YEAR}`;
}
