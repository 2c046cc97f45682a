// What every virtual app shares: one state, one drawing, one table of targets, and the translation of real input
// (pointer, touch, wheel, keyboard) into calls on the targets. A page gives `mount` a spec:
//   width, height               css px
//   render(state, ui)           draws with ui.icon / ui.rect / ui.word and registers with ui.target; a pure function of state
//   swipe | scroll (state, "up"|"down")   key(state, "ctrl+c")   button(state, "Back")   typed(state, text)   all optional
//   wheel(state, dx, dy)        in place of scroll: css px, positive right and down
//   focused(state)              true where typed text goes into the app's text box
//   tools: {name: (state, args) => result}     throw Error(message) to refuse
// A target's handlers: tap, double, triple, context, middle, hold (each (state)), drop(state, name of what was dropped),
// and glide(state, dx, dy, name of the target at the end), which takes every longer stroke that begins on it.
"use strict";

const HOLD_MS = 400; // a press this long is a long press
const SLOP = 10; // css px a pointer may travel within a tap

function mount(spec) {
  const screen = document.getElementById("screen");
  const glass = document.getElementById("glass");
  const sink = document.getElementById("sink");
  let state = null;
  let targets = [];

  const escape = (text) => String(text).replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
  const canonical = (value) =>
    Array.isArray(value)
      ? value.map(canonical)
      : value && typeof value === "object"
        ? Object.fromEntries(Object.keys(value).sort().map((key) => [key, canonical(value[key])]))
        : value;

  function paint() {
    const out = [];
    targets = [];
    const ui = {
      icon: (name, x, y, size) => out.push(`<g transform="translate(${x},${y}) scale(${size / 24})">${ICONS[name]}</g>`),
      rect: (x, y, w, h, fill, radius = 0, stroke = "none", width = 0) =>
        out.push(`<rect x="${x}" y="${y}" width="${w}" height="${h}" rx="${radius}" fill="${fill}" stroke="${stroke}" stroke-width="${width}"/>`),
      word: (text, x, y, size, { anchor = "middle", fill = "#1e293b", weight = "normal" } = {}) =>
        out.push(`<text x="${x}" y="${y}" font-size="${size}" text-anchor="${anchor}" fill="${fill}" font-weight="${weight}">${escape(text)}</text>`),
      target: (name, x, y, w, h, on = {}) => targets.push({ name, box: [x, y, x + w, y + h], on }),
      closed: () => (targets = []), // a popup hides what lies below it from the input
    };
    spec.render(state, ui);
    screen.innerHTML = out.join("");
    if (spec.focused && spec.focused(state)) sink.focus();
    else sink.blur();
  }

  const under = (x, y) => targets.findLast(({ box: [x0, y0, x1, y1] }) => x >= x0 && x < x1 && y >= y0 && y < y1);

  function fire(kind, target, ...args) {
    if (target && target.on[kind]) target.on[kind](state, ...args);
    else if (!target && spec.outside) spec.outside(state, kind);
    else return;
    paint();
  }

  function hover(event) {
    const target = under(event.clientX, event.clientY);
    const name = target ? target.name : "";
    if (!spec.hover || state.pointer === name) return;
    state.pointer = name;
    paint();
  }

  let press = null;
  glass.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    hover(event);
    press = { x: event.clientX, y: event.clientY, time: event.timeStamp, button: event.button, target: under(event.clientX, event.clientY) };
  });
  glass.addEventListener("pointermove", hover);
  glass.addEventListener("pointercancel", () => (press = null));
  glass.addEventListener("pointerup", (event) => {
    event.preventDefault();
    if (!press) return;
    const { x, y, time, button, target } = press;
    press = null;
    const [dx, dy] = [event.clientX - x, event.clientY - y];
    const end = under(event.clientX, event.clientY);
    if (Math.hypot(dx, dy) > SLOP) {
      if (button === 0 && target && target.on.glide) fire("glide", target, dx, dy, end ? end.name : "");
      else if (event.pointerType === "touch") {
        if (spec.swipe && Math.abs(dy) > Math.abs(dx)) {
          spec.swipe(state, dy < 0 ? "up" : "down");
          paint();
        }
      } else if (button === 0 && target && target.on.drag && end && end.on.drop) fire("drop", end, target.name);
    } else if (button === 2) fire("context", target);
    else if (button === 1) fire("middle", target);
    else if (event.pointerType === "touch" && event.timeStamp - time >= HOLD_MS) fire("hold", target);
    else if (button === 0) fire("tap", target);
    hover(event);
  });
  glass.addEventListener("dblclick", (event) => fire("double", under(event.clientX, event.clientY)));
  glass.addEventListener("click", (event) => event.detail === 3 && fire("triple", under(event.clientX, event.clientY)));
  for (const kind of ["contextmenu", "mousedown", "touchstart"]) {
    glass.addEventListener(kind, (event) => event.preventDefault(), { passive: false });
  }
  document.addEventListener("wheel", (event) => {
    event.preventDefault();
    if (spec.wheel) spec.wheel(state, event.deltaX, event.deltaY);
    else if (spec.scroll && event.deltaY !== 0) spec.scroll(state, event.deltaY > 0 ? "down" : "up");
    else return;
    paint();
  }, { passive: false });
  document.addEventListener("keydown", (event) => {
    const name = event.key.toLowerCase();
    const writing = spec.focused && spec.focused(state);
    if (["control", "shift", "alt", "meta"].includes(name) || (writing && name !== "enter" && !event.ctrlKey)) return;
    event.preventDefault();
    if (name === "goback" || name === "browserback") return window.app.button("Back");
    if (!spec.key) return;
    const shift = event.shiftKey && (event.ctrlKey || event.altKey);
    spec.key(state, (event.ctrlKey ? "ctrl+" : "") + (event.altKey ? "alt+" : "") + (shift ? "shift+" : "") + name);
    paint();
  });
  sink.addEventListener("input", () => {
    if (spec.typed) spec.typed(state, sink.value);
    paint();
  });

  window.app = {
    load(next) {
      state = structuredClone(next);
      press = null;
      sink.value = spec.text ? spec.text(state) : "";
      paint();
    },
    state: () => canonical(state),
    elements: () => targets.map(({ name, box }) => ({ name, box })),
    tool(name, args) {
      if (!Object.hasOwn(spec.tools, name)) return { success: false, result: null, error_message: `there is no tool ${name}` };
      try {
        const result = spec.tools[name](state, args);
        paint();
        return { success: true, result, error_message: null };
      } catch (error) {
        return { success: false, result: null, error_message: error.message };
      }
    },
    button(name) {
      if (spec.button) spec.button(state, name);
      paint();
    },
    answer(text) {
      state.answer = String(text).trim().toLowerCase();
      paint();
    },
    retype: (text) => (sink.value = text), // the app itself sets what the text box holds
  };
}
