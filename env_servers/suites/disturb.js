// Disturbances over any page that has `window.app`: they are drawn outside its body, take real input, and can be got rid
// of by what a policy can do. Runs once after the page's own scripts and wraps `window.app`:
//   load({disturb, ...state})   disturb: what is to come, [{kind, at, x, y, side, ...}], see disturb.py
//   state().disturbances        {showing: the item on the screen or null, gone: kinds that were dealt with}
//   elements()                  of a blocking disturbance its own alone, else its own ahead of the page's
// One is shown at a time, the first whose time has come. A blocking one takes all pointer, wheel and key input.
"use strict";

(() => {
  const page = window.app;
  const INK = "#1e293b";
  const MARKED = "#16a34a";
  let items = [];
  let gone = [];
  let step = -1;
  let buttons = [];

  const root = document.createElement("div");
  root.style.cssText = "position: fixed; inset: 0; z-index: 2147483647; pointer-events: none; font: 11px 'DejaVu Sans', sans-serif;";
  document.documentElement.append(root);

  const showing = () => items.find((item) => item.at <= step) ?? null;
  const blocks = () => showing() !== null && KINDS[showing().kind].blocks;
  function finish() {
    gone.push(showing().kind);
    items.splice(items.indexOf(showing()), 1);
  }

  // What the drawings are made of; boxes in css px of the window.
  function piece(text, x, y, w, h, look) {
    const made = document.createElement("div");
    made.textContent = text;
    Object.assign(made.style, {
      position: "absolute", boxSizing: "border-box", left: `${x}px`, top: `${y}px`, width: `${w}px`, height: `${h}px`,
      lineHeight: `${h}px`, textAlign: "center", color: INK, overflow: "hidden", whiteSpace: "nowrap", userSelect: "none",
      pointerEvents: "auto", cursor: "default", ...look,
    });
    root.append(made);
    return made;
  }
  function button(name, text, x, y, w, h, tap, look = {}) {
    const made = piece(text, x, y, w, h, { background: "#2563eb", color: "#ffffff", borderRadius: "5px", fontWeight: "bold", ...look });
    made.addEventListener("click", () => {
      tap();
      paint();
    });
    buttons.push({ name, box: [x, y, x + w, y + h] });
  }
  // A panel placed by the item's x and y (0 to 1 of the room there is); its corner.
  function panel(item, w, h, title) {
    const [x, y] = [Math.round((innerWidth - w) * item.x), Math.round((innerHeight - h) * item.y)];
    piece("", x, y, w, h, { background: "#ffffff", border: "2px solid #64748b", borderRadius: "6px" });
    piece(title, x + 4, y + 5, w - 8, 18, { fontWeight: "bold" });
    return [x, y];
  }
  const wide = () => Math.min(innerWidth - 8, 150);

  const KINDS = {
    popup: {
      blocks: true,
      draw(item) {
        const [w, h] = [Math.min(innerWidth - 16, 120), 76];
        const [x, y] = panel(item, w, h, item.side ? "" : "offer");
        piece("%", x + w / 2 - 14, y + 24, 28, 26, { background: "#fde68a", borderRadius: "13px" });
        const [left, top] = item.side ? [x + w - 28, y + 4] : [x + w / 2 - 13, y + h - 26 - 1];
        button("close", "×", left, top, 24, 23, finish, { background: "#b91c1c" });
      },
    },
    permission: {
      blocks: true,
      draw(item) {
        const [w, h] = [wide(), 58];
        const [x, y] = panel(item, w, h, "allow place?");
        const names = item.side ? ["allow", "deny"] : ["deny", "allow"];
        const half = (w - 18) / 2;
        names.forEach((name, k) => button(name, name, x + 6 + k * (half + 6), y + 27, half, 25, finish, { background: name === "allow" ? "#2563eb" : "#64748b" }));
      },
    },
    cookies: {
      blocks: false,
      draw(item) {
        const y = item.side ? 0 : innerHeight - 32;
        piece("", 0, y, innerWidth, 32, { background: "#334155" });
        piece("cookies", 4, y + 5, 56, 22, { color: "#f8fafc" });
        button("accept", "accept", innerWidth - 66, y + 4, 58, 24, finish, { background: MARKED });
      },
    },
    notification: {
      blocks: false,
      draw(item) {
        const y = item.side ? 3 : innerHeight - 33;
        piece("message", 5, y, innerWidth - 10, 30, { background: "#e0e7ff", border: "1px solid #6366f1", borderRadius: "8px" });
        button("close", "×", item.x < 0.5 ? 9 : innerWidth - 33, y + 3, 24, 24, finish, { background: "#6366f1" });
      },
    },
    loading: {
      blocks: true,
      draw(item) {
        piece("loading", 0, 0, innerWidth, innerHeight, { background: "#f1f5f9", fontWeight: "bold" });
        for (let k = 0; k < 3; k++) piece("", innerWidth / 2 - 24 + k * 18, innerHeight / 2 + 14, 12, 12, { background: k < item.seconds ? "#2563eb" : "#cbd5e1", borderRadius: "6px" });
      },
    },
    tick: {
      blocks: true,
      draw(item) {
        const [x, y] = panel(item, wide(), 58, "a person?");
        button("box", item.ticked ? "✓" : "", x + 8, y + 27, 25, 25, () => (item.ticked = !item.ticked), { background: "#ffffff", color: INK, border: `2px solid ${INK}` });
        button("check", "check", x + 44, y + 27, 52, 25, () => item.ticked && finish());
      },
    },
    order: {
      blocks: true,
      draw(item) {
        const [x, y] = panel(item, wide(), 58, "tap 1 2 3");
        const tap = (number) => () => {
          item.done = number === item.done + 1 ? number : 0; // a wrong one: from the start again
          if (item.done === 3) finish();
        };
        item.order.forEach((number, k) => button(String(number), number, x + 8 + k * 36, y + 27, 28, 25, tap(number), number <= item.done ? { background: MARKED } : {}));
      },
    },
    rotate: {
      blocks: true,
      draw(item) {
        const [x, y] = panel(item, wide(), 62, "arrow up");
        piece("↑", x + 4, y + 26, 30, 30, { fontSize: "22px", transform: `rotate(${90 * item.turns}deg)`, pointerEvents: "none" });
        button("turn", "turn", x + 32, y + 28, 36, 25, () => (item.turns = (item.turns + 1) % 4));
        button("check", "check", x + 72, y + 28, 44, 25, () => item.turns === 0 && finish());
      },
    },
    slider: {
      blocks: true,
      draw(item) {
        const w = wide();
        const [x, y] = panel(item, w, 84, "slide to green");
        const cell = (w - 12) / 5;
        for (let k = 0; k < 5; k++) {
          const look = { background: k === item.knob ? "#2563eb" : "#e2e8f0", border: `2px solid ${k === item.goal ? MARKED : "#94a3b8"}` };
          button(`place ${k + 1}`, "", x + 6 + k * cell, y + 26, cell - 2, 24, () => (item.knob = k), look);
        }
        button("check", "check", x + w / 2 - 26, y + 54, 52, 24, () => item.knob === item.goal && finish());
      },
    },
  };

  function paint() {
    root.replaceChildren();
    buttons = [];
    const item = showing();
    if (!item) return;
    if (KINDS[item.kind].blocks) piece("", 0, 0, innerWidth, innerHeight, { background: "rgba(15, 23, 42, 0.45)" });
    KINDS[item.kind].draw(item);
  }

  const MINE = ["pointerdown", "pointerup", "pointermove", "mousedown", "mouseup", "mousemove", "click", "dblclick", "contextmenu", "auxclick", "touchstart", "touchend", "touchmove", "wheel"];
  for (const kind of MINE) {
    const keep = (event) => {
      event.stopPropagation();
      if (["mousedown", "contextmenu", "wheel"].includes(kind)) event.preventDefault(); // the focus stays where it was
    };
    root.addEventListener(kind, keep, { passive: false });
  }
  for (const kind of ["keydown", "keypress", "keyup", "beforeinput"]) {
    addEventListener(kind, (event) => {
      if (!blocks()) return;
      event.preventDefault();
      event.stopImmediatePropagation();
    }, { capture: true });
  }

  const unlessBlocked = (name) => page[name] && { [name]: (given) => (blocks() ? undefined : page[name](given)) };
  window.app = {
    ...page,
    ...unlessBlocked("button"),
    ...unlessBlocked("goto"),
    ...unlessBlocked("open"),
    load({ disturb, ...state }) {
      [items, gone, step] = [structuredClone(disturb), [], -1];
      paint();
      return page.load(state);
    },
    async settled() {
      step += 1;
      if (page.settled) await page.settled();
      paint();
    },
    async wait(seconds) {
      if (page.wait) await page.wait(seconds);
      const item = showing();
      if (item?.kind === "loading") {
        item.seconds -= seconds;
        if (item.seconds <= 0) finish();
      }
    },
    state: () => ({ ...page.state(), disturbances: { showing: showing(), gone } }),
    elements: () => (blocks() ? [...buttons] : [...buttons, ...page.elements()]),
  };
})();
