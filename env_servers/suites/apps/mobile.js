// What the phone's apps share: its look (framework7's style sheet under plain nodes) and its parts. An app gives `phone`
// what `mount` wants, but `screen(state) => node` in place of start and show. State that all have: layout {look ios|md,
// dark, accent, tabs below|above, clock}, screen, dialog, focus (name of the box that takes the typed text).
"use strict";

const ACCENTS = ["#2563eb", "#0f766e", "#7c3aed", "#c2410c", "#be185d", "#15803d"];
const ICONS = {
  back: "M15 5l-7 7 7 7", close: "M6 6l12 12M18 6L6 18", search: "M10.5 4a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13zM15.5 15.5L21 21",
  plus: "M12 5v14M5 12h14", minus: "M5 12h14", check: "M4 12.5l5.5 5.5L20 6.5", home: "M4 11l8-7 8 7v9h-5v-6H9v6H4z",
  heart: "M12 20C5 15 3 11.5 3 8.6 3 6 5 4.2 7.3 4.2c2 0 3.6 1.2 4.7 3 1.1-1.8 2.7-3 4.7-3C19 4.2 21 6 21 8.600c0 2.9-2 6.4-9 11.400z",
  star: "M12 3.500l2.7 5.6 6.1.8-4.5 4.2 1.1 6.100L12 17.200l-5.4 3 1.1-6.1-4.5-4.2 6.1-.800z",
  clock: "M12 3.500a8.5 8.5 0 1 0 0 17 8.5 8.5 0 0 0 0-17zM12 7.500V12l3.5 2", card: "M3 6h18v12H3zM3 10h18", user: "M12 4a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM4.5 20.500c.8-4 3.7-6 7.5-6s6.7 2 7.5 6",
  pin: "M12 21c-4.5-5-6.7-8.5-6.7-11.300a6.7 6.7 0 0 1 13.4 0C18.7 12.5 16.5 16 12 21zM12 7.500a2.3 2.3 0 1 0 0 4.6 2.3 2.3 0 0 0 0-4.600z",
  car: "M4 16v-4l2-5.500h12l2 5.500v4zM4 12h16M6.5 16v2.500M17.5 16v2.5", trash: "M5 7h14M9 7V4.500h6V7M7 7l1 13h8l1-13M10.5 10.500v6M13.5 10.500v6",
  edit: "M4 20l1-4.500L16 4.500l3.5 3.5-11 11z", briefcase: "M4 8h16v11H4zM9 8V5h6v3", list: "M8 6h12M8 12h12M8 18h12M4 6h.1M4 12h.1M4 18h.1",
  ticket: "M3 8a2 2 0 0 0 0-2h18v4a2 2 0 0 0 0 4v4H3v-4a2 2 0 0 0 0-4zM14 6v12", film: "M4 5h16v14H4zM8 5v14M16 5v14M4 9.700h4M4 14.300h4M16 9.700h4M16 14.300h4",
  train: "M6 4h12v12H6zM6 10h12M9 13h.1M15 13h.1M8 16l-2 4M16 16l2 4", folder: "M3 6h6l2 2.500h10V19H3z", note: "M6 3.500h12v17H6zM9 8h6M9 12h6M9 16h3",
  sun: "M12 7.500a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9zM12 2v2.500M12 19.500V22M2 12h2.500M19.5 12H22M5 5l1.7 1.700M17.3 17.300L19 19M5 19l1.7-1.700M17.3 6.700L19 5",
  cloud: "M7 18a4 4 0 0 1-.5-8 5.5 5.5 0 0 1 10.6-1A4.5 4.5 0 0 1 17 18z", rain: "M7 14a4 4 0 0 1-.5-8 5.5 5.5 0 0 1 10.6-1A4.5 4.5 0 0 1 17 14zM8 17l-1 3M12.5 17l-1 3M17 17l-1 3",
  snow: "M7 14a4 4 0 0 1-.5-8 5.5 5.5 0 0 1 10.6-1A4.5 4.5 0 0 1 17 14zM8 18h.1M12 20h.1M16 18h.1M10 21.500h.1M14.5 21.500h.1", wind: "M3 9h11a2.7 2.7 0 1 0-2.5-3.700M3 13h15a2.7 2.7 0 1 1-2.5 3.700M3 17h7",
  storm: "M7 14a4 4 0 0 1-.5-8 5.5 5.5 0 0 1 10.6-1A4.5 4.5 0 0 1 17 14zM12.5 12l-2.5 4.500h4L11.5 21", next: "M9 5l7 7-7 7", more: "M5 12h.1M12 12h.1M19 12h.1",
  gift: "M4 10h16v10H4zM3 6.500h18V10H3zM12 6.500V20M12 6.500C10 2 5.5 3.5 8 6.500M12 6.500c2-4.5 6.5-3 4 0", send: "M3 11.500L21 4l-7 17-3-7.500z", fork: "M7 3v18M4.5 3v5a2.5 2.5 0 0 0 5 0V3M16.5 3v18M16.5 3c3 1.5 3 8 0 9.5",
};

function icon(name, size = 22, filled = false) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const given = { viewBox: "0 0 24 24", width: size, height: size, fill: filled ? "currentColor" : "none", stroke: "currentColor", "stroke-width": 1.8, "stroke-linecap": "round", "stroke-linejoin": "round" };
  for (const [key, value] of Object.entries(given)) svg.setAttribute(key, value);
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}

// --- parts; `act` is always a function of the state ---
let change = null; // set by `phone`
const tapped = (act) => act && (() => change(act));

const tool = (name, picture, act, filled) => h("a", { class: "tool", name, onclick: tapped(act) }, picture in ICONS ? icon(picture, 22, filled) : picture);
const button = (name, text, act, style = "button-fill") => h("a", { class: `button ${style}`, name, onclick: tapped(act) }, text);
const chip = (name, text, on, act) => h("a", { class: `chip ${on ? "on" : ""}`, name, onclick: tapped(act) }, text);
const label = (text) => h("div", { class: "label" }, text);
const pair = (what, value) => h("div", { class: "pair" }, h("span", {}, what), h("span", {}, value));
const card = (...children) => h("div", { class: "card" }, ...children);
const empty = (text) => h("div", { class: "empty" }, text);
const list = (...rows) => h("div", { class: "list list-strong inset list-dividers" }, h("ul", {}, ...rows));

// One row: what is left of its words, title, a line below, what is right of them; a tap anywhere, a hold anywhere.
const row = ({ name, media, title, sub, after, picked, act, hold }) =>
  h("li", { class: picked ? "picked" : "", name, onclick: tapped(act), onhold: tapped(hold) },
    h("div", { class: "item-content" },
      media && h("div", { class: "item-media" }, typeof media === "string" ? icon(media) : media),
      h("div", { class: "item-inner" },
        h("div", { class: "words" }, h("div", {}, title), sub && h("div", { class: "sub" }, sub)),
        after !== undefined && h("div", { class: "item-after" }, after))));

// A box for text, with a way to clear it: `write(state, text)` takes what was typed, `done(state)` the Enter key.
const box = ({ name, value, hint, picture, write, done, lines }) =>
  h("div", { class: lines ? "box lines" : "box" },
    picture && icon(picture, 18),
    h(lines ? "textarea" : "input", {
      name, value, placeholder: hint, spellcheck: "false", autocomplete: "off", style: lines && `height: ${lines * 20}px; padding: 10px 0`,
      oninput: (event) => change((state) => write(state, event.target.value)),
      onkeydown: (event) => event.key === "Enter" && done && (event.preventDefault(), change(done)),
      onclick: (event) => event.target.setSelectionRange(event.target.value.length, event.target.value.length),
    }),
    value && tool(`clear ${name}`, "close", (state) => { write(state, ""); state.focus = name; }));

const stepper = (name, value, less, more) =>
  h("div", { class: "stepper" }, tool(`fewer ${name}`, "minus", less), h("b", {}, value), tool(`more ${name}`, "plus", more));
const bar = (title, { back, tools = [] } = {}) =>
  h("div", { class: `bar ${back ? "back" : ""}` }, back && tool("back", "back", back), h("div", { class: "title" }, title), ...tools, back && !tools.length && h("div", { class: "tool" }));
const content = (key, ...children) => h("div", { class: "content", "data-keep": key }, ...children);
const foot = (...children) => h("div", { class: "foot" }, ...children);
const tabs = (state, items) =>
  h("div", { class: `tabs ${state.layout.tabs}` }, items.map(([name, picture, on, act]) => h("a", { class: on ? "on" : "", name, onclick: tapped(act) }, icon(picture), name)));
const sheet = (title, ...children) =>
  h("div", { class: "veil" }, h("div", { class: "sheet" }, h("div", { class: "head" }, title, tool("close", "close", (state) => (state.dialog = ""))), h("div", { class: "inside", "data-keep": `sheet ${title}` }, ...children)));
const ask = (title, text, ...choices) =>
  h("div", { class: "veil middle" }, h("div", { class: "ask" }, h("div", { class: "words" }, h("b", {}, title), text), h("div", { class: "choices" }, ...choices)));

const status = (state) => h("div", { class: "status" }, h("span", {}, state.layout.clock), h("span", {}, "5G", h("span", {}, "82%")));

// The whole screen: bar, content and the rest from top to bottom, what lies over it last.
function framed(state, parts, { tabs: tabbar, over } = {}) {
  const above = state.layout.tabs === "above";
  const [first, ...rest] = parts;
  return h("div", { class: "phone" }, status(state), first, above && tabbar, ...rest, !above && tabbar, over);
}

function phone(spec) {
  let rendering = false;
  const app = mount({
    ...spec,
    start(root) {
      root.addEventListener("focusin", (event) => event.target.dataset.name && (app.now().focus = event.target.dataset.name));
      root.addEventListener("focusout", () => !rendering && (app.now().focus = ""));
    },
    show(state) {
      const { look, dark, accent } = state.layout;
      document.documentElement.className = dark ? `${look} dark` : look;
      document.documentElement.style.setProperty("--tone", ACCENTS[accent]);
      rendering = true;
      const root = document.getElementById("root");
      root.replaceChildren(spec.screen(state));
      if (spec.drawn) spec.drawn(state, root);
      rendering = false;
      const holder = state.focus && root.querySelector(`input[data-name="${CSS.escape(state.focus)}"], textarea[data-name="${CSS.escape(state.focus)}"]`);
      if (!holder) state.focus = "";
    },
    focus: (state) => state.focus,
  });
  change = app.change;
  return app;
}
