// What the web apps share: colours, boxes and lists, the way back, and the one dialog of a page.
// The state has `layout.theme`, `at` (the place shown), `past` (places left, for "Back"), `scroll` (of the main part)
// and `toast` (a line at the bottom until the next place).
"use strict";

// Of a theme: what stands out, the bar, text on the bar, the ground, a line.
const THEMES = [
  ["#2563eb", "#1e3a8a", "#ffffff", "#f1f5f9", "#cbd5e1"],
  ["#0f766e", "#134e4a", "#ffffff", "#f0fdfa", "#b6d8d3"],
  ["#b91c1c", "#ffffff", "#1f2937", "#f8fafc", "#d4d4d8"],
  ["#7c3aed", "#2e1065", "#ffffff", "#faf5ff", "#d8c8ee"],
  ["#c2410c", "#fff7ed", "#431407", "#fffbf5", "#ecd3bd"],
  ["#166534", "#14532d", "#ffffff", "#f5faf5", "#c4d8c6"],
  ["#0369a1", "#ffffff", "#0c2a3d", "#f0f6fa", "#c3d7e3"],
  ["#be185d", "#3b0a22", "#ffffff", "#fdf4f8", "#ebc9da"],
];

function dress(root, layout) {
  ["accent", "bar", "onbar", "ground", "line"].forEach((name, k) =>
    root.style.setProperty(`--${name}`, THEMES[layout.theme][k]),
  );
}

// A box for text: a click selects what it holds, so that typing replaces it.
function entry(name, value, put, given = {}) {
  const { tall, ...rest } = given;
  return h(tall ? "textarea" : "input", {
    name, value, class: "entry", autocomplete: "off", spellcheck: "false",
    onclick: (event) => event.target.select(),
    oninput: (event) => put(event.target.value),
    ...rest,
  });
}

// A list to choose from; `blank` is what its empty option says. Its menu would be drawn outside the page: it never opens,
// options are set by the browser.
function choice(name, options, value, put, { blank = "Choose", ...given } = {}) {
  const node = h(
    "select",
    { name, class: "entry", onmousedown: (event) => event.preventDefault(), onchange: (event) => put(event.target.value), ...given },
    options.map((option) => h("option", { value: option }, option || blank)),
  );
  node.value = value;
  return node;
}

const press = (name, text, onclick, kind = "") => h("button", { name, class: `press ${kind}`, onclick, type: "button" }, text);

const enter = (then) => (event) => {
  if (event.key !== "Enter") return;
  event.preventDefault();
  then();
};

function go(state, at) {
  state.past = [...state.past, state.at].slice(-20);
  Object.assign(state, { at, scroll: 0, toast: "" });
}

function back(state) {
  if (!state.past.length) return;
  Object.assign(state, { at: state.past.at(-1), past: state.past.slice(0, -1), scroll: 0, toast: "" });
}

// The path of an address without its host: "https://any.host/forum" and "/forum" are one.
const pathOf = (url) => decodeURIComponent(String(url).trim().replace(/^[a-z]+:\/\/[^/]*/i, "").replace(/^\/?/, "/"));

const readScroll = (state) => {
  const main = document.querySelector("[data-main]");
  if (main) state.scroll = Math.round(main.scrollTop);
};
const showScroll = (state) => {
  const main = document.querySelector("[data-main]");
  if (main) main.scrollTop = state.scroll;
};

const find = (list, test, what) => {
  const found = list.find(test);
  if (!found) throw Error(`there is no ${what}`);
  return found;
};

// The dialog {icon, title, text, ok, cancel} of the state, drawn by sweetalert2; `choose(yes)` is told how it was left.
function dialogs(choose) {
  let shown = "";
  let turn = 0;
  let rest = Promise.resolve();
  return {
    ready: () => rest,
    show(dialog) {
      const key = dialog ? JSON.stringify(dialog) : "";
      if (key === shown) return;
      shown = key;
      const mine = ++turn;
      if (!dialog) return Swal.close();
      Swal.fire({
        icon: dialog.icon, titleText: dialog.title, text: dialog.text, showCancelButton: Boolean(dialog.cancel),
        showClass: { popup: "", backdrop: "swal2-backdrop-show", icon: "" }, hideClass: { popup: "", backdrop: "", icon: "" },
        allowOutsideClick: false, heightAuto: false, scrollbarPadding: false, returnFocus: false,
        didRender() { // the buttons' texts as options would be taken for markup
          named(Swal.getConfirmButton(), dialog.ok).textContent = dialog.ok;
          if (dialog.cancel) named(Swal.getCancelButton(), dialog.cancel).textContent = dialog.cancel;
        },
      }).then((result) => {
        if (mine !== turn) return;
        shown = "";
        choose(result.isConfirmed);
      });
      rest = new Promise((done) => setTimeout(done, 25));
    },
  };
}
