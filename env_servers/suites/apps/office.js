// What the desktop apps share: glyphs, menus, dialogs, and the focus as part of the state.
// State that is used here: menu (open menu, "" = none) · dialog {kind, and a text for each of its fields} ·
// focus (name of the field with the focus) · picked (all text of that field is selected) · layout.theme.
"use strict";

const THEMES = [
  { accent: "#2563eb", bar: "#f1f5fb", desk: "#e8edf5", ink: "#1e293b" },
  { accent: "#0f766e", bar: "#eef7f5", desk: "#e2eeeb", ink: "#17302c" },
  { accent: "#b45309", bar: "#fbf5ec", desk: "#f3eadb", ink: "#3a2a14" },
  { accent: "#7c3aed", bar: "#f5f1fd", desk: "#ebe4f8", ink: "#2b2140" },
  { accent: "#be123c", bar: "#fdf1f3", desk: "#f6e4e7", ink: "#3d1a22" },
  { accent: "#334155", bar: "#eef0f3", desk: "#dfe3e9", ink: "#1b2430" },
];

const GLYPHS = {
  back: "M15 5l-7 7 7 7",
  down: "M7 10l5 5 5-5",
  plus: "M12 5v14M5 12h14",
  close: "M6 6l12 12M18 6L6 18",
  search: "M10.5 4a6.5 6.5 0 1 1 0 13a6.5 6.5 0 1 1 0-13M15.5 15.5L20 20",
  bullets: "M9 6h11M9 12h11M9 18h11M4 6h1M4 12h1M4 18h1",
  numbers: "M10 6h10M10 12h10M10 18h10M4 4.5l1.5-.7V9M4 14h2.5L4 18h2.7",
  left: "M4 6h16M4 10h10M4 14h16M4 18h10",
  center: "M4 6h16M7 10h10M4 14h16M7 18h10",
  right: "M4 6h16M10 10h10M4 14h16M10 18h10",
  comment: "M4 5h16v11H10l-4 4v-4H4z",
  star: "M12 3.5l2.6 5.5 6 .8-4.4 4.2 1.1 6L12 17.1 6.7 20l1.1-6L3.4 9.800l6-.8z",
  undo: "M9 6L4 11l5 5M4 11h10a5 5 0 0 1 0 10h-2",
  document: "M6 3h8l4 4v14H6zM14 3v4h4M9 12h6M9 16h6",
  sum: "M17 6V4H6l6 8-6 8h11v-2",
  ascending: "M7 4v15M4 16l3 3 3-3M13 6h3M13 11h5M13 16h7",
  descending: "M7 4v15M4 16l3 3 3-3M13 6h7M13 11h5M13 16h3",
  fill: "M5 13l7-7 6 6-7 7zM10 4l3 3M19 15c2 3 1 4 0 4s-2-1 0-4",
  display: "M3 5h18v11H3zM9 20h6M12 16v4",
  sound: "M4 9v6h4l5 4V5L8 9zM16 9a4 4 0 0 1 0 6M18.500 6.500a8 8 0 0 1 0 11",
  network: "M3 9a13 13 0 0 1 18 0M6 12.500a8.500 8.500 0 0 1 12 0M9 16a4.200 4.200 0 0 1 6 0M12 19v.5",
  users: "M9 4a4 4 0 1 1 0 8a4 4 0 1 1 0-8M2 20c0-4 3-6 7-6s7 2 7 6M16 5a3.500 3.500 0 0 1 0 7M18 14c3 .8 4 3 4 6",
  bell: "M6 16V11a6 6 0 0 1 12 0v5l2 2H4zM10 20.500h4",
  about: "M12 3a9 9 0 1 1 0 18a9 9 0 1 1 0-18M12 11v6M12 7v.5",
  terminal: "M3 4h18v16H3zM7 9l3 3-3 3M12 15h5",
  gear: "M12 8.500a3.500 3.500 0 1 1 0 7a3.500 3.500 0 1 1 0-7M12 2v4M12 18v4M2 12h4M18 12h4M5 5l2.800 2.800M16.200 16.200L19 19M19 5l-2.800 2.800M7.800 16.200L5 19",
};

function glyph(name, size = 18, fill = "none") {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  for (const [key, value] of Object.entries({ viewBox: "0 0 24 24", width: size, height: size, fill, stroke: "currentColor", "stroke-width": 1.9, "stroke-linecap": "round", "stroke-linejoin": "round" })) svg.setAttribute(key, value);
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", GLYPHS[name]);
  svg.append(path);
  return svg;
}

const still = (event) => event.preventDefault(); // a press here leaves focus and selection where they are

// A button of a tool bar.
const tool = (name, face, press, on = false) =>
  h("button", { name, class: on ? "tool on" : "tool", onmousedown: still, onclick: press }, typeof face === "string" && GLYPHS[face] ? glyph(face) : face);

// The bar of menus: {File: [[label, what it does to the state], ...]}; the open one is state.menu.
function menuBar(state, change, menus) {
  return h("div", { class: "menus" }, Object.entries(menus).map(([title, entries]) => {
    const key = title.toLowerCase();
    return h("div", { class: "menu" },
      h("button", { name: `${key} menu`, class: state.menu === key ? "head on" : "head", onmousedown: still, onclick: () => change((now) => (now.menu = now.menu === key ? "" : key)) }, title),
      state.menu === key && menuList(change, entries));
  }));
}

const menuList = (change, entries) =>
  h("div", { class: "drop" }, entries.map(([label, act]) =>
    h("button", { name: label.toLowerCase().replace("…", ""), class: "entry", onmousedown: still, onclick: () => change((now) => { now.menu = ""; act(now); }) }, label)));

// A list at a point, as a right click opens it.
const contextMenu = (change, [x, y], entries) => {
  const list = menuList(change, entries);
  list.classList.add("context");
  list.style.left = `${Math.min(x, innerWidth - 200)}px`;
  list.style.top = `${Math.min(y, innerHeight - 34 * entries.length - 16)}px`;
  return list;
};

const openDialog = (now, kind, fields = {}) => Object.assign(now, {
  menu: "", dialog: { kind, ...fields }, focus: Object.keys(fields)[0] ? `${Object.keys(fields)[0]} box` : "", picked: false,
});
const closeDialog = (now) => Object.assign(now, { menu: "", dialog: { kind: "" }, focus: "", picked: false });

// A dialog: title, [field], a sentence, and [[label, what it does], ...], the last of them the main one.
function dialogBox(kit, state, { title, fields = [], text = "", buttons }) {
  const main = buttons.at(-1)[1];
  const press = (act) => kit.change((now) => act(now));
  return h("div", { class: "veil" }, h("div", { class: "dialog" }, h("h2", {}, title), text && h("p", {}, text),
    fields.map((key) => h("label", {}, h("span", {}, key[0].toUpperCase() + key.slice(1)),
      h("input", { name: `${key} box`, value: state.dialog[key], spellcheck: "false", autocomplete: "off",
        oninput: (event) => (kit.now().dialog[key] = event.target.value), onkeydown: (event) => event.key === "Enter" && (event.preventDefault(), press(main)) }))),
    h("div", { class: "row" }, buttons.map(([label, act], k) =>
      h("button", { name: label.toLowerCase(), class: k === buttons.length - 1 ? "main" : "", onclick: () => press(act) }, label)))));
}

function readFocus(state) {
  const field = document.activeElement;
  state.focus = field?.matches?.("input") ? (field.dataset.name ?? "") : "";
  state.picked = !!state.focus && field.type === "text" && field.value !== "" && field.selectionStart === 0 && field.selectionEnd === field.value.length;
}

function showFocus(state) {
  const field = state.focus && document.querySelector(`input[data-name="${CSS.escape(state.focus)}"]`);
  if (!field) {
    if (document.activeElement?.matches?.("input")) document.activeElement.blur();
    return;
  }
  if (document.activeElement !== field) field.focus({ preventScroll: true });
  if (field.type === "text") field.setSelectionRange(state.picked ? 0 : field.value.length, field.value.length);
}

function paint(state) {
  for (const [key, value] of Object.entries(THEMES[state.layout.theme])) document.body.style.setProperty(`--${key}`, value);
}
