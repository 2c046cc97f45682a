// A phone with two apps: notes (folders, lists to tick, pins, search) and weather (cities, five days), and a home screen.
"use strict";

const SKY = { sunny: "sun", cloudy: "cloud", rainy: "rain", snowy: "snow", windy: "wind", stormy: "storm" };
const degrees = (state, celsius) => `${state.unit === "F" ? Math.round((celsius * 9) / 5 + 32) : celsius}°`;
const note = (state, id) => state.notes.find((one) => one.id === id);
const titled = (state, title) => state.notes.find((one) => one.title === title);
const seen = (state, what) => state.history.includes(what) || state.history.push(what);

// Leaves an open note: one in which nothing was ever written is gone.
const leave = (state) => {
  const one = note(state, state.item);
  if (one && !one.title && !one.text && !one.items.length) state.notes = state.notes.filter(({ id }) => id !== one.id);
  Object.assign(state, { item: "", entry: "" });
};
const show = (state, app, screen, more = {}) => {
  if (state.open === "notes" && state.screens.notes === "note" && (app === "notes" && screen !== "note")) leave(state);
  state.open = app;
  if (screen) state.screens[app] = screen;
  Object.assign(state, { dialog: "", focus: "", held: "" }, more);
  if (app === "weather" && state.screens.weather === "cities") seen(state, "cities");
  if (app === "weather" && state.screens.weather === "city") seen(state, `city ${state.city}`);
  if (app === "notes" && state.screens.notes === "note") seen(state, `note ${note(state, state.item).title}`);
};
const create = (state, given) => {
  const one = { id: `n${state.next++}`, title: "", folder: state.folder || state.folders[0], pinned: false, list: false, text: "", items: [], ...given };
  state.notes.push(one);
  return one;
};
const removed = (state, id) => {
  state.notes = state.notes.filter((one) => one.id !== id);
  if (state.item === id) {
    Object.assign(state, { item: "", entry: "" });
    state.screens.notes = "list";
  }
  Object.assign(state, { dialog: "", held: "" });
};
const target = (state) => note(state, state.held || state.item);

// --- home ---
function homeScreen(state) {
  const apps = { notes: ["Notes", "note", "yellow"], weather: ["Weather", "sun", "sky"] };
  return h("div", { class: `phone home w${state.layout.wallpaper} ${state.layout.icons}` }, status(state),
    h("div", { class: "now" }, h("b", {}, state.layout.clock), state.days[0]),
    h("div", { class: "icons" }, ...state.layout.apps.map((name) => h("a", { name: `${name} app`, onclick: tapped((now) => show(now, name)) }, h("span", { class: apps[name][2] }, icon(apps[name][1], 32)), apps[name][0]))));
}

// --- notes ---
const shownNotes = (state) => {
  const wanted = state.query.trim().toLowerCase();
  const found = state.notes.filter((one) => (!state.folder || one.folder === state.folder) && `${one.title} ${one.text} ${one.items.map(([text]) => text).join(" ")}`.toLowerCase().includes(wanted));
  return [...found.filter((one) => one.pinned), ...found.filter((one) => !one.pinned)];
};
const preview = (one) => (one.list ? `${one.items.filter(([, done]) => done).length} of ${one.items.length} ticked` : one.text.split("\n")[0] || "empty");

function listScreen(state) {
  const rows = shownNotes(state).map((one) => row({
    name: `note ${one.title || "untitled"}`, media: one.list ? "list" : "note", title: one.title || "Untitled",
    sub: state.layout.sub === "folder" ? `${one.folder}, ${preview(one)}` : preview(one), after: one.pinned ? h("span", { class: "mark" }, icon("pin", 18, true)) : "",
    act: (now) => show(now, "notes", "note", { item: one.id }), hold: (now) => Object.assign(now, { held: one.id, dialog: "actions" }),
  }));
  const tools = [tool("folders", "folder", (now) => Object.assign(now, { dialog: "folders", entry: "" })), tool("new note", "edit", (now) => show(now, "notes", "note", { item: create(now, {}).id, focus: "title" }))];
  return { bar: bar(state.folder || "All notes", { tools }), parts: [
    h("div", { class: "pad" }, box({ name: "search", value: state.query, hint: "Search notes", picture: "search", write: (now, text) => (now.query = text) })),
    content(`list ${state.folder}`, rows.length ? list(...rows) : empty("No notes here."))] };
}

function noteScreen(state) {
  const one = note(state, state.item);
  const items = one.items.map(([text, done], k) => row({ name: `item ${text}`, media: h("span", { class: `tick ${done ? "on" : ""}` }, done && icon("check", 14)), title: text, act: (now) => (note(now, now.item).items[k][1] = !done) }));
  const add = (now) => {
    const text = now.entry.trim();
    if (text && !note(now, now.item).items.some(([other]) => other === text)) note(now, now.item).items.push([text, false]);
    now.entry = "";
  };
  const body = one.list
    ? [items.length ? list(...items) : null, h("div", { class: "pad" }, box({ name: "new item", value: state.entry, hint: "New item", picture: "plus", write: (now, text) => (now.entry = text), done: add })), h("div", { class: "pad" }, button("add item", "Add item", add, "button-tonal"))]
    : [h("div", { class: "paper" }, box({ name: "text", value: one.text, hint: "Write here", lines: 9, write: (now, text) => (note(now, now.item).text = text) }))];
  const tools = [tool(one.pinned ? "unpin" : "pin", "pin", (now) => (target(now).pinned = !one.pinned), one.pinned), tool("move", "folder", (now) => (now.dialog = "move")), tool("delete", "trash", (now) => (now.dialog = "delete"))];
  return { bar: bar(one.folder, { back: (now) => show(now, "notes", "list"), tools }), parts: [
    h("div", { class: "paper" }, box({ name: "title", value: one.title, hint: "Title", write: (now, text) => (note(now, now.item).title = text) })),
    content(`note ${one.id}`, ...body)] };
}

// --- weather ---
function citiesScreen(state) {
  const rows = state.cities.map((name) => {
    const { now, sky } = state.forecast[name];
    return row({ name: `city ${name}`, media: SKY[sky], title: name, sub: sky, after: h("span", { class: "high" }, degrees(state, now)), act: (next) => show(next, "weather", "city", { city: name }) });
  });
  const units = ["C", "F"].map((unit) => chip(`degrees ${unit}`, unit === "C" ? "Celsius" : "Fahrenheit", state.unit === unit, (now) => (now.unit = unit)));
  return { bar: bar("Weather", { tools: [tool("add city", "plus", (now) => show(now, "weather", "add", { place: "", focus: "city" }))] }), parts: [h("div", { class: "chips" }, ...units), content("cities", rows.length ? list(...rows) : empty("No cities yet."))] };
}

function cityScreen(state) {
  const { now, sky, humidity, wind, sunrise, days } = state.forecast[state.city];
  const rows = days.map(([day, picture, high, low]) => row({ media: SKY[picture], title: day, sub: picture, after: h("span", {}, h("span", { class: "high" }, degrees(state, high)), ` ${degrees(state, low)}`) }));
  return { bar: bar(state.city, { back: (next) => show(next, "weather", "cities"), tools: [tool("remove city", "trash", (next) => (next.dialog = "remove"))] }), parts: [content("city",
    h("div", { class: "weather" }, h("div", { class: "place-line" }, icon(SKY[sky], 46)), h("div", { class: "degrees" }, degrees(state, now)), sky),
    card(pair("Humidity", `${humidity} %`), pair("Wind", `${wind} km/h`), pair("Sunrise", sunrise)),
    label("HIGH AND LOW"), list(...rows))] };
}

function addScreen(state) {
  const wanted = state.place.trim().toLowerCase();
  const found = Object.keys(state.forecast).sort().filter((name) => !state.cities.includes(name) && name.toLowerCase().includes(wanted));
  const rows = found.map((name) => row({ name: `add ${name}`, media: "pin", title: name, act: (now) => show(now, "weather", "cities", { cities: [...now.cities, name] }) }));
  return { bar: bar("Add a city", { back: (now) => show(now, "weather", "cities") }), parts: [h("div", { class: "pad" }, box({ name: "city", value: state.place, hint: "Search cities", picture: "search", write: (now, text) => (now.place = text) })), content("add", rows.length ? list(...rows) : empty("No city found."))] };
}

// --- what lies over a screen ---
const close = (state) => Object.assign(state, { dialog: "", held: "", entry: "" });
function over(state) {
  const one = target(state);
  const folders = (act, picked) => state.folders.map((name) => row({ name: `folder ${name}`, media: "folder", title: name, picked: picked === name, act: (now) => { act(now, name); close(now); } }));
  const make = (now) => {
    const name = now.entry.trim();
    if (name && !now.folders.includes(name)) now.folders.push(name);
    close(now);
  };
  switch (state.dialog) {
    case "actions":
      return sheet(one.title || "Untitled", list(
        row({ name: one.pinned ? "unpin" : "pin", media: "pin", title: one.pinned ? "Unpin" : "Pin", act: (now) => { target(now).pinned = !one.pinned; close(now); } }),
        row({ name: "move", media: "folder", title: "Move to a folder", act: (now) => (now.dialog = "move") }),
        row({ name: "delete", media: "trash", title: "Delete", act: (now) => (now.dialog = "delete") })));
    case "move":
      return sheet("Move to", list(...folders((now, name) => (target(now).folder = name), one.folder)));
    case "folders":
      return sheet("Folders", list(row({ name: "all notes", media: "note", title: "All notes", picked: !state.folder, act: (now) => { now.folder = ""; close(now); } }), ...folders((now, name) => (now.folder = name), state.folder)),
        h("div", { class: "pad" }, box({ name: "new folder", value: state.entry, hint: "New folder", picture: "plus", write: (now, text) => (now.entry = text), done: make })), h("div", { class: "pad" }, button("create folder", "Create folder", make, "button-tonal")));
    case "delete":
      return ask("Delete this note?", one.title || "Untitled", button("keep", "Keep", close, "button-tonal"), button("confirm delete", "Delete it", (now) => removed(now, target(now).id), "danger"));
    case "remove":
      return ask("Remove this city?", state.city, button("keep", "Keep", close, "button-tonal"), button("confirm remove", "Remove it", (now) => show(now, "weather", "cities", { cities: now.cities.filter((name) => name !== now.city) }), "danger"));
  }
  return null;
}

const SCREENS = { notes: { list: listScreen, note: noteScreen }, weather: { cities: citiesScreen, city: cityScreen, add: addScreen } };
const some = (state, title) => titled(state, title) ?? (() => { throw Error(`there is no note ${title}`); })();
const isText = (value) => { if (typeof value !== "string" || !value.trim()) throw Error("the text is empty"); };

phone({
  screen(state) {
    if (state.open === "home") return homeScreen(state);
    const { bar: top, parts } = SCREENS[state.open][state.screens[state.open]](state);
    return framed(state, [top, ...parts], { over: over(state) });
  },
  button(state, name) {
    if (name === "Home") show(state, "home");
    else if (name === "Back" && state.dialog) close(state);
    else if (name === "Back" && state.open === "notes" && state.screens.notes === "note") show(state, "notes", "list");
    else if (name === "Back" && state.open === "weather" && state.screens.weather !== "cities") show(state, "weather", "cities");
    else if (name === "Back") show(state, "home");
  },
  open(state, name) {
    const app = String(name).trim().toLowerCase();
    if (SCREENS[app]) show(state, app);
  },
  tools: {
    "notes.create"(state, { title, text, folder }) {
      isText(title);
      if (folder !== undefined && !state.folders.includes(folder)) throw Error(`there is no folder ${folder}`);
      if (titled(state, title)) throw Error(`there is a note ${title} already`);
      create(state, { title, text, ...(folder ? { folder } : {}) });
      return { title };
    },
    "notes.add_item"(state, { title, item }) {
      const one = some(state, title);
      isText(item);
      if (!one.list) throw Error(`${title} is no list`);
      if (!one.items.some(([text]) => text === item)) one.items.push([item, false]);
      return { title, items: one.items.length };
    },
    "notes.set_pinned"(state, { title, pinned }) {
      some(state, title).pinned = Boolean(pinned);
      return { title, pinned: Boolean(pinned) };
    },
    "notes.move"(state, { title, folder }) {
      const one = some(state, title);
      if (!state.folders.includes(folder)) throw Error(`there is no folder ${folder}`);
      one.folder = folder;
      return { title, folder };
    },
    "notes.delete"(state, { title }) {
      removed(state, some(state, title).id);
      return { title };
    },
    "weather.get"(state, { city }) {
      if (!state.forecast[city]) throw Error(`there is no city ${city}`);
      const { now, sky, days } = state.forecast[city];
      return { now: degrees(state, now), sky, days: days.map(([day, picture, high, low]) => ({ day, sky: picture, high: degrees(state, high), low: degrees(state, low) })) };
    },
    "weather.add_city"(state, { city }) {
      if (!state.forecast[city]) throw Error(`there is no city ${city}`);
      if (!state.cities.includes(city)) state.cities.push(city);
      return { city };
    },
  },
});
