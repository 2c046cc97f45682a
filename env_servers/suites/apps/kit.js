// What every app of this suite shares: one state, one way to show it, real input, and `window.app`. A page gives `mount`:
//   start(root)                 builds the document and its widgets, once
//   show(state)                 makes the document show the state; calling it twice changes nothing
//   read(state)                 optional: takes over what a widget holds (an editor's text, a table's cells)
//   elements(state, seen)       optional: more of what can be used, [{name, box}], that is no node of its own (a word of a
//                               text, a cell); seen(box, owner) is what of the box can be hit on `owner`, or null
//   focus(state)                optional: name of what has the focus, "" for nothing; else the focus stays where it is
//   ready()                     optional: a promise that resolves when the widgets have come to rest
//   notch: 3                    optional: how much farther than the wheel asks a page scrolls
//   tools: {name: (state, args) => result}     throw Error(message) to refuse
//   button(state, "Back")   answer(state, text)   open(state, name)   goto(state, url)      all optional
// What can be used carries its name: `named(node, "send")`, or `h("button", {name: "send", onclick: ...}, "Send")`.
// A node with the attribute data-main scrolls where what lies under the pointer does not.
// Text only ever enters the document as text, never as markup.
"use strict";

// A node: attributes by name, `on...` handlers, `name` (how sentences call it), `style` and `class` as text.
function h(tag, given = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(given)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "name") named(node, value);
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "value" || key === "checked") node[key] = value;
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

function named(node, name) {
  node.dataset.name = name;
  return node;
}

function mount(spec) {
  const root = document.getElementById("root");
  const HOLD_MS = 400; // a touch this long is a long press
  const SLOP = 10; // css px a finger may travel within a tap
  let state = null;

  const canonical = (value) =>
    Array.isArray(value)
      ? value.map(canonical)
      : value && typeof value === "object"
        ? Object.fromEntries(Object.keys(value).sort().map((key) => [key, canonical(value[key])]))
        : value;

  // Shows the state; what had the focus keeps it, and so do the scroll positions of what has a name or a `data-keep`.
  function show() {
    const held = document.activeElement?.dataset?.name;
    const scrolled = [...root.querySelectorAll("[data-name], [data-keep]")]
      .filter((node) => node.scrollTop || node.scrollLeft)
      .map((node) => [...(node.dataset.keep ? ["keep", node.dataset.keep] : ["name", node.dataset.name]), node.scrollTop, node.scrollLeft]);
    spec.show(state);
    const find = (kind, name) => root.querySelector(`[data-${kind}="${CSS.escape(name)}"]`);
    for (const [kind, name, top, left] of scrolled) {
      const node = find(kind, name);
      if (node) [node.scrollTop, node.scrollLeft] = [top, left];
    }
    const focused = spec.focus ? spec.focus(state) : held;
    if (focused && document.activeElement?.dataset?.name !== focused) find("name", focused)?.focus({ preventScroll: true });
    if (spec.focus && !focused) document.activeElement?.blur();
  }

  // What a handler calls: `change((state) => ...)` alters the state and shows it.
  const change = (how) => {
    if (spec.read) spec.read(state);
    how(state);
    show();
  };

  // What is to be seen of a node, null where that is too little to be hit for sure or something else lies over it.
  function box(node) {
    let { left, top, right, bottom } = node.getBoundingClientRect();
    const least = document.body.classList.contains("mobile") ? 16 : 10; // a finger that meets less may hit what is beside it
    const [wide, tall] = [right - left, bottom - top].map((side) => Math.max(4, Math.min(side, least)));
    for (let above = node.parentElement; above && above !== document.documentElement; above = above.parentElement) {
      if (getComputedStyle(above).overflow === "visible") continue;
      const frame = above.getBoundingClientRect();
      [left, top] = [Math.max(left, frame.left), Math.max(top, frame.top)];
      [right, bottom] = [Math.min(right, frame.right), Math.min(bottom, frame.bottom)];
    }
    [left, top] = [Math.max(left, 0), Math.max(top, 0)];
    [right, bottom] = [Math.min(right, innerWidth), Math.min(bottom, innerHeight)];
    if (right - left < wide || bottom - top < tall) return null;
    const hit = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
    return hit && (node.contains(hit) || hit.contains(node)) && hit.closest("[data-name]") === node
      ? [left, top, right, bottom].map(Math.round)
      : null;
  }

  // What can be seen of a box inside `owner`, null where its middle is covered by something else.
  function seen(given, owner) {
    const frame = owner.getBoundingClientRect();
    const [left, top] = [Math.max(given[0], frame.left, 0), Math.max(given[1], frame.top, 0)];
    const [right, bottom] = [Math.min(given[2], frame.right, innerWidth), Math.min(given[3], frame.bottom, innerHeight)];
    if (right - left < 4 || bottom - top < 4) return null;
    return owner.contains(document.elementFromPoint((left + right) / 2, (top + bottom) / 2)) ? [left, top, right, bottom].map(Math.round) : null;
  }

  // The nearest box around a node that can move by (dx, dy) moves; at once, so that the next picture has it.
  function roll(node, dx, dy) {
    for (let at = node; at && at !== document.documentElement; at = at.parentElement) {
      const style = getComputedStyle(at);
      const down = /auto|scroll/.test(style.overflowY) && at.scrollHeight > at.clientHeight;
      const across = /auto|scroll/.test(style.overflowX) && at.scrollWidth > at.clientWidth;
      if ((dy && down) || (dx && across)) {
        at.scrollBy({ top: dy, left: dx, behavior: "instant" });
        return true;
      }
    }
    return false;
  }
  document.addEventListener("wheel", (event) => {
    event.preventDefault();
    const [dx, dy] = [event.deltaX, event.deltaY].map((distance) => distance * (spec.notch ?? 1));
    const main = root.querySelector("[data-main]");
    if (!roll(event.target, dx, dy) && main) roll(main, dx, dy);
  }, { passive: false });

  // A touch that was a long press or a swipe is no tap: the click that Chromium makes of it goes nowhere.
  let press = null;
  let tap = true;
  document.addEventListener("click", (event) => {
    if (!tap) event.stopImmediatePropagation(), event.preventDefault();
    tap = true;
  }, true);
  document.addEventListener("pointerdown", (event) => {
    tap = true;
    if (event.pointerType === "touch") press = { x: event.clientX, y: event.clientY, time: event.timeStamp, node: event.target };
  }, true);
  document.addEventListener("pointerup", (event) => {
    if (event.pointerType !== "touch" || !press) return;
    const [dx, dy, { time, node }] = [event.clientX - press.x, event.clientY - press.y, press];
    press = null;
    tap = Math.hypot(dx, dy) <= SLOP && event.timeStamp - time < HOLD_MS;
    if (Math.hypot(dx, dy) > SLOP) {
      const swipe = new CustomEvent("swipe", { bubbles: true, cancelable: true, detail: { dx, dy } });
      if (node.dispatchEvent(swipe)) roll(node, -dx, -dy);
    } else if (!tap) node.dispatchEvent(new CustomEvent("hold", { bubbles: true }));
  }, true);
  document.addEventListener("contextmenu", (event) => event.preventDefault());

  spec.start(root);
  window.app = {
    load(next) {
      state = structuredClone(next);
      press = null;
      for (const node of root.querySelectorAll("*")) if (node.scrollTop || node.scrollLeft) node.scrollTo(0, 0);
      show();
    },
    state() {
      if (spec.read) spec.read(state);
      return canonical(state);
    },
    elements: () =>
      [...document.querySelectorAll("[data-name]")]
        .map((node) => ({ name: node.dataset.name, box: box(node) }))
        .filter((element) => element.box)
        .concat(spec.elements ? spec.elements(state, seen) : []),
    settled: spec.ready,
    tool(name, args) {
      if (!Object.hasOwn(spec.tools ?? {}, name)) return { success: false, result: null, error_message: `there is no tool ${name}` };
      try {
        if (spec.read) spec.read(state);
        const result = spec.tools[name](state, args) ?? null;
        show();
        return { success: true, result, error_message: null };
      } catch (error) {
        return { success: false, result: null, error_message: error.message };
      }
    },
    answer: (text) => change((now) => {
      now.answer = String(text).trim();
      if (spec.answer) spec.answer(now, text);
    }),
    ...Object.fromEntries(
      ["button", "open", "goto"].filter((name) => spec[name]).map((name) => [name, (given) => change((now) => spec[name](now, given))]),
    ),
  };
  return { change, now: () => state };
}
