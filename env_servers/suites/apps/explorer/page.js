// Explorer: windows on folders that move, overlap and minimise; icons and lists, dragging, keys, archives, a bin, search.
"use strict";

const SIZE = [560, 366]; // css px of a window
const BAR = 28; // css px of the top bar
let kit, part, shownState, drag = null, mouse = null;

const ART = {
  folder: "M3 6h6l2 2.500h10V19H3z", pdf: "M6 3h8l4 4v14H6zM14 3v4h4M9 17c3-2 4-6 3-7s-2 4 4 5", odt: "M6 3h8l4 4v14H6zM14 3v4h4M9 11h6M9 14h6M9 17h4",
  png: "M3 5h18v14H3zM3 16l5-5 4 4 3-3 6 5M16 8.500h.1", mp3: "M9 18V6l10-2v12M9 18a2.500 2.500 0 1 1-.1-.1M19 16a2.500 2.500 0 1 1-.1-.1", txt: "M6 3h12v18H6zM9 8h6M9 12h6M9 16h3",
  csv: "M4 5h16v14H4zM4 10h16M4 14.500h16M10 5v14", zip: "M5 3h14v18H5zM12 3v3M12 8v2M12 12v2M10.500 16h3v2.500h-3z", bin: "M5 7h14M9 7V4.500h6V7M7 7l1 13h8l1-13M10.500 10.500v6M13.500 10.500v6",
  home: "M4 11l8-7 8 7v9h-5v-6H9v6H4z", up: "M12 20V5M6 11l6-6 6 6", icons: "M4 4h6v6H4zM14 4h6v6h-6zM4 14h6v6H4zM14 14h6v6h-6z", list: "M4 6h16M4 12h16M4 18h16", less: "M5 12h14",
};
Object.assign(GLYPHS, ART);
const INK = { folder: "var(--accent)", pdf: "#dc2626", odt: "#2563eb", png: "#059669", mp3: "#7c3aed", txt: "#64748b", csv: "#15803d", zip: "#b45309" };

// --- what a person does ------------------------------------------------------------------------------------------------
// What a person does may be refused: a dialog says why.
const attempt = (how) => (now) => {
  try {
    how(now);
  } catch (error) {
    Object.assign(now, { menu: "", dialog: { kind: "refused", text: error.message }, focus: "", picked: false });
  }
};
const each = (now, how) => {
  const own = front(now);
  for (const [path, name] of listed(now, own).filter(([, name]) => own.chosen.includes(name))) how(path, name);
};
const paste = (now) => {
  const { clip } = now, to = front(now).path;
  if (!clip || to === "Bin") return;
  for (const name of clip.names) (clip.cut ? move : copy)(now, clip.path, name, to);
  if (clip.cut) now.clip = null;
};
const take = (cut) => (now) => {
  const own = front(now);
  if (own.chosen.length && own.path !== "Bin" && !own.query) now.clip = { cut, path: own.path, names: [...own.chosen] };
};
const discard = (now) => front(now).path !== "Bin" && each(now, (path, name) => remove(now, path, name));

// --- windows -----------------------------------------------------------------------------------------------------------
const raise = (state, own) => {
  own.mini = false;
  state.windows = [...state.windows.filter((one) => one !== own), own];
  Object.assign(state, { menu: "", focus: "" });
};
const shownBy = (state, path) => state.windows.find((own) => own.path === path);
// A folder is shown by one window at most: where another one has it, that comes to the front.
const visit = (state, own, path, past = [...own.past, own.path]) => {
  const other = shownBy(state, path);
  if (other) return raise(state, other);
  Object.assign(own, { path, past: past.slice(-12), query: "", chosen: [], sort: { by: "name", down: false } });
  Object.assign(state, { menu: "", focus: "" });
};
const launch = (state, path) => {
  const own = shownBy(state, path);
  if (own) return raise(state, own);
  const step = 26 * (state.windows.length % 5);
  state.windows.push({ path, view: "icons", sort: { by: "name", down: false }, query: "", x: 200 + step, y: 70 + step, mini: false, chosen: [], past: [] });
  state.focus = "";
};
const enter = (state, own, [path, name, node]) => {
  if (own.path === "Bin") return;
  if (isFolder(node)) visit(state, own, joined(path, name));
  else openDialog(state, "properties");
};
const within = (value, most) => Math.min(Math.max(value, 0), most);
const minX = (state) => (state.layout.dock === "left" ? 90 : 0);

// --- what is drawn -----------------------------------------------------------------------------------------------------
const face = (name, node, size) => h("span", { class: "face", style: `color: ${INK[kindOf(name, node)] ?? "#64748b"}` }, glyph(kindOf(name, node) in ART ? kindOf(name, node) : "txt", size, isFolder(node) ? "color-mix(in srgb, currentColor 25%, #ffffff)" : "#ffffff"));

function entries(state, own, top) {
  const called = (name) => (top ? name : `${name} in ${leaf(own.path)}`);
  const rows = listed(state, own);
  const handlers = (row) => ({
    name: called(row[1]), class: `thing ${own.chosen.includes(row[1]) ? "chosen" : ""}`,
    onmousedown: (event) => event.button === 0 && hold(event, own, row),
    onclick: (event) => { event.stopPropagation(); pick(event, own.path, row[1]); },
    oncontextmenu: (event) => { event.stopPropagation(); context(event, own.path, row[1]); },
  });
  const marked = (node) => node.star && h("i", { class: "starred" }, glyph("star", 12, "#eab308"));
  const where = own.query || own.path === "Bin";
  const icons = () => rows.map((row) => h("div", handlers(row), face(row[1], row[2], 38), h("span", { class: "label" }, row[1]), where && h("small", {}, `in ${leaf(row[0])}`), marked(row[2])));
  const head = (by, text) => h("button", { name: top ? `${by} header` : undefined, class: "column", onclick: () => kit.change((now) => {
    const mine = shownBy(now, own.path);
    mine.sort = mine.sort.by === by ? { by, down: !mine.sort.down } : { by, down: by === "size" };
  }) }, text, own.sort.by === by && glyph(own.sort.down ? "down" : "up", 12));
  const lines = () => [
    h("div", { class: "line heads" }, head("name", "Name"), h("span", {}, where ? "Folder" : "Kind"), head("size", "Size"), h("span", {}, "Changed")),
    ...rows.map((row) => { const given = handlers(row); return h("div", { ...given, class: `line ${given.class}` }, h("span", { class: "first" }, face(row[1], row[2], 18), h("span", { class: "label" }, row[1]), marked(row[2])), h("span", {}, where ? leaf(row[0]) : kindOf(row[1], row[2])), h("span", {}, `${total(row[2])} KB`), h("span", {}, row[2].date)); }),
  ];
  return h("div", { class: `entries ${own.view}`, name: top ? "entries" : undefined, "data-keep": `entries ${own.path}`,
    onclick: () => kit.change((now) => { const mine = shownBy(now, own.path); if (mine) mine.chosen = []; now.menu = ""; }),
    oncontextmenu: (event) => context(event, own.path, ""),
  }, own.view === "list" ? lines() : icons(), rows.length ? null : h("p", { class: "none" }, own.query ? "Nothing was found" : "Empty"));
}

function frame(state, own, top) {
  const on = (how) => () => kit.change((now) => how(now, shownBy(now, own.path)));
  const title = leaf(own.path), place = (name) => { const path = name === "Home" || name === "Bin" ? name : `Home/${name}`;
    return h("button", { name: top ? `place ${name}` : undefined, "data-path": path, class: own.path === path ? "on" : "", onclick: on((now, mine) => visit(now, mine, path)) }, glyph(name === "Home" ? "home" : name === "Bin" ? "bin" : "folder", 16), name); };
  const small = (name, picture, how, off, lit) => h("button", { name: top ? name : undefined, class: `tool${lit ? " on" : ""}${off ? " off" : ""}`, onmousedown: still, onclick: on(how) }, glyph(picture, 16));
  const bin = own.path === "Bin";
  return h("section", { class: `window${top ? " top" : ""}`, "data-path": own.path, style: `left: ${own.x}px; top: ${own.y}px; width: ${SIZE[0]}px; height: ${SIZE[1]}px`,
    onmousedown: () => front(kit.now()) !== shownBy(kit.now(), own.path) && kit.change((now) => raise(now, shownBy(now, own.path))) },
    h("div", { class: "titlebar", name: `title of ${title}`, onmousedown: (event) => { event.preventDefault(); drag = { window: own.path, dx: event.clientX - own.x, dy: event.clientY - own.y }; } },
      h("b", {}, title),
      h("button", { name: `minimise ${title}`, class: "cross less", onmousedown: (event) => event.stopPropagation(), onclick: on((now, mine) => { mine.mini = true; now.focus = ""; }) }, glyph("less", 13)),
      h("button", { name: `close ${title}`, class: "cross", onmousedown: (event) => event.stopPropagation(), onclick: on((now, mine) => { now.windows = now.windows.filter((one) => one !== mine); now.focus = ""; }) }, glyph("close", 13))),
    h("div", { class: "tools" },
      small("back", "back", (now, mine) => mine.past.length && visit(now, mine, mine.past.at(-1), mine.past.slice(0, -1)), !own.past.length),
      small("up", "up", (now, mine) => up(now, mine), bin || own.path === "Home"),
      h("span", { class: "crumbs" }, bin ? "Bin" : own.path.split("/").join(" \u203a ")),
      bin ? [h("button", { name: top ? "restore" : undefined, class: "plain", onclick: on(attempt((now) => { for (const name of [...front(now).chosen]) restore(now, name); })) }, "Restore"),
        h("button", { name: top ? "empty bin" : undefined, class: "plain", onclick: on((now) => now.bin.length && openDialog(now, "empty")) }, "Empty bin")]
        : [h("span", { class: "find" }, glyph("search", 14), h("input", { name: top ? "search box" : undefined, type: "text", value: own.query, placeholder: "Search", spellcheck: "false", autocomplete: "off", oninput: (event) => { const text = event.target.value; kit.change((now) => { const mine = front(now); mine.query = text; mine.chosen = []; }); } }),
          own.query && h("button", { name: top ? "clear search" : undefined, class: "wipe", onclick: on((now, mine) => { mine.query = ""; now.focus = ""; }) }, glyph("close", 12))),
        small("new folder", "plus", (now) => openDialog(now, "folder", { name: "" }))],
      small("icons view", "icons", (now, mine) => (mine.view = "icons"), false, own.view === "icons"), small("list view", "list", (now, mine) => (mine.view = "list"), false, own.view === "list")),
    h("div", { class: "split" }, h("nav", {}, ["Home", ...state.places, "Bin"].map(place)), entries(state, own, top)),
    h("div", { class: "status" }, `${listed(state, own).length} entries${own.chosen.length ? `, ${own.chosen.length} chosen` : ""}`));
}

function up(state, own) {
  if (own && own.path.includes("/")) visit(state, own, own.path.split("/").slice(0, -1).join("/"));
}

function pick(event, path, name) {
  const many = event.ctrlKey;
  kit.change((now) => {
    const own = shownBy(now, path);
    now.menu = "";
    if (event.detail === 2) return enter(now, own, listed(now, own).find((row) => row[1] === name));
    const held = own.chosen.includes(name);
    own.chosen = !many ? [name] : held ? own.chosen.filter((one) => one !== name) : [...own.chosen, name];
  });
}

function context(event, path, name) {
  event.preventDefault();
  kit.change((now) => {
    const own = shownBy(now, path);
    raise(now, own);
    if (path === "Bin") return;
    if (!name) own.chosen = [];
    else if (!own.chosen.includes(name)) own.chosen = [name];
    Object.assign(now, { menu: name ? "item" : "space", at: [Math.round(event.clientX), Math.round(event.clientY)] });
  });
}

function menu(state) {
  const own = front(state);
  if (!state.menu || !own) return "";
  if (state.menu === "space") return contextMenu(kit.change, state.at, [["New folder…", (now) => openDialog(now, "folder", { name: "" })], ["Paste", attempt(paste)], ["Select all", (now) => { const mine = front(now); mine.chosen = listed(now, mine).map(([, name]) => name); }]]);
  const [path, name, node] = listed(state, own).find((row) => row[1] === own.chosen[0]);
  const zip = kindOf(name, node) === "zip";
  return contextMenu(kit.change, state.at, [
    ["Open", (now) => enter(now, front(now), [path, name, node])],
    ["Copy", take(false)], ["Cut", take(true)],
    ["Rename…", (now) => openDialog(now, "rename", { name })],
    zip ? ["Extract here", attempt((now) => extract(now, path, name))] : ["Compress", attempt((now) => compress(now, path, name))],
    [node.star ? "Remove star" : "Add star", (now) => each(now, (folder, one) => (entryAt(now, folder, one).star = !node.star))],
    ["Move to bin", attempt(discard)],
    ["Properties", (now) => openDialog(now, "properties")],
  ]);
}

function overlay(state) {
  const { kind } = state.dialog, own = front(state), [name] = own?.chosen ?? [];
  const done = (how) => (now) => attempt((one) => { how(one); closeDialog(one); })(now);
  const where = (now) => listed(now, front(now)).find((row) => row[1] === name)[0];
  if (kind === "rename") return dialogBox(kit, state, { title: `Rename ${name}`, fields: ["name"], buttons: [["Cancel", closeDialog], ["Rename", done((now) => rename(now, where(now), name, now.dialog.name))]] });
  if (kind === "folder") return dialogBox(kit, state, { title: "New folder", fields: ["name"], buttons: [["Cancel", closeDialog], ["Create", done((now) => makeFolder(now, front(now).path, now.dialog.name))]] });
  if (kind === "empty") return dialogBox(kit, state, { title: "Empty the bin?", text: `${state.bin.length} entries are deleted for good.`, buttons: [["Cancel", closeDialog], ["Delete for good", done((now) => { now.bin = []; tidy(now); })]] });
  if (kind === "refused") return dialogBox(kit, state, { title: "Not possible", text: `Sorry, ${state.dialog.text}.`, buttons: [["OK", closeDialog]] });
  if (kind === "properties") {
    const [path, , node] = listed(state, own).find((row) => row[1] === name);
    return dialogBox(kit, state, { title: name, text: h("span", { class: "facts" }, [["Kind", kindOf(name, node)], ["Size", `${total(node)} KB`], ["Changed", node.date], ["Folder", path]].map(([what, text]) => h("span", {}, h("i", {}, what), text))), buttons: [["OK", closeDialog]] });
  }
  return "";
}

function show(state) {
  paint(state);
  if (state !== shownState) [drag, mouse] = [null, null];
  shownState = state;
  const top = front(state);
  part.desk.dataset.dock = state.layout.dock;
  part.desk.style.backgroundImage = `linear-gradient(${state.layout.light * 3}deg, color-mix(in srgb, var(--accent) 30%, #ffffff), color-mix(in srgb, var(--accent) 75%, #0f172a))`;
  const dock = { home: ["Home", "home"], bin: ["Bin", "bin"] };
  part.desk.replaceChildren(
    h("div", { class: "topbar" }, h("b", {}, top ? leaf(top.path) : "Desktop"), h("span", { class: "space" }), h("span", {}, state.layout.day)),
    h("div", { class: "dock" },
      state.layout.icons.map((key) => h("button", { name: `${key} icon`, class: "icon", onmousedown: still, onclick: () => kit.change((now) => launch(now, dock[key][0])) }, glyph(dock[key][1], 24))),
      [...state.windows].sort((a, b) => (a.path < b.path ? -1 : 1)).map((own) => h("button", { name: `${leaf(own.path)} in the dock`, class: `icon run${own.mini ? " mini" : ""}`, onmousedown: still, onclick: () => kit.change((now) => raise(now, shownBy(now, own.path))) }, glyph("folder", 20), h("small", {}, leaf(own.path))))),
    ...state.windows.filter((own) => !own.mini).map((own) => frame(state, own, own === top)));
  part.over.replaceChildren(menu(state), overlay(state));
  showFocus(state);
}

// --- mouse and keys ----------------------------------------------------------------------------------------------------
const nameAt = (x, y) => {
  const node = document.elementFromPoint(x, y);
  const held = node?.closest(".window.top .thing, .titlebar");
  return node?.closest(".cross") ? "" : (held?.dataset.name ?? "");
};
function hold(event, own, row) {
  event.preventDefault();
  const names = own.chosen.includes(row[1]) ? own.chosen : [row[1]];
  drag = { names: [...names], path: own.path, from: row[0], x: event.clientX, y: event.clientY };
}
// Where a drag that ends at the mouse puts things: a folder's entry, a place at the side, or a window.
function target(event) {
  const node = document.elementFromPoint(event.clientX, event.clientY);
  const own = node?.closest(".window");
  if (!own) return "";
  const at = node.closest("[data-path]").dataset.path, entry = node.closest(".thing");
  if (!entry || at === "Bin") return at;
  const name = entry.querySelector(".label").textContent, row = listed(kit.now(), shownBy(kit.now(), at)).find((one) => one[1] === name);
  return row && isFolder(row[2]) ? joined(row[0], name) : at;
}
function drop(event) {
  const held = drag;
  drag = null;
  if (!held?.names || Math.hypot(event.clientX - held.x, event.clientY - held.y) < 6) return;
  const to = target(event);
  if (!to || to === held.from || held.path === "Bin") return;
  kit.change(attempt((now) => { for (const name of held.names) to === "Bin" ? remove(now, held.from, name) : move(now, held.from, name, to); }));
}
const KEYS = {
  Delete: attempt(discard),
  F2: (now) => front(now).chosen.length === 1 && front(now).path !== "Bin" && openDialog(now, "rename", { name: front(now).chosen[0] }),
  Enter: (now) => { const own = front(now), row = listed(now, own).find((one) => one[1] === own.chosen[0]); if (row) enter(now, own, row); },
  Backspace: (now) => up(now, front(now)),
  "ctrl a": (now) => (front(now).chosen = listed(now, front(now)).map(([, name]) => name)),
  "ctrl c": take(false), "ctrl x": take(true), "ctrl v": attempt(paste),
};
function press(event) {
  const now = kit.now();
  if (event.key === "Escape" && (now.dialog.kind || now.menu)) return kit.change(closeDialog);
  const how = KEYS[event.ctrlKey ? `ctrl ${event.key.toLowerCase()}` : event.key];
  if (!how || event.target.matches("input") || now.dialog.kind || !front(now)) return;
  event.preventDefault();
  kit.change((state) => { state.menu = ""; how(state); });
}

function start(root) {
  part = { desk: h("div", { class: "desk" }), over: h("div") };
  root.append(part.desk, part.over);
  document.addEventListener("mousemove", (event) => {
    const now = kit.now();
    mouse = [event.clientX, event.clientY];
    if (drag?.window) kit.change(() => Object.assign(shownBy(now, drag.window), { x: Math.max(minX(now), within(event.clientX - drag.dx, innerWidth - SIZE[0])), y: BAR + within(event.clientY - drag.dy - BAR, innerHeight - BAR - 80) }));
    now.pointer = nameAt(...mouse);
  });
  document.addEventListener("mouseup", drop);
  document.addEventListener("keydown", press);
  part.desk.addEventListener("click", (event) => event.target === part.desk && kit.now().menu && kit.change((now) => (now.menu = "")));
}

function read(state) {
  if (mouse) state.pointer = nameAt(...mouse);
  readFocus(state);
}

// Of a window behind another: the part of it that can be hit, to drop things on.
function windowsBehind(state, seen) {
  const [wide, tall] = [SIZE[0] / 4, SIZE[1] / 4];
  return state.windows.filter((own) => !own.mini && own !== front(state)).flatMap((own) => {
    const owner = part.desk.querySelector(`.window[data-path="${CSS.escape(own.path)}"]`);
    for (let k = 0; k < 16; k++) {
      const [left, top] = [own.x + (k % 4) * wide, own.y + Math.floor(k / 4) * tall];
      const box = seen([left + 10, top + 10, left + wide - 10, top + tall - 10], owner);
      const node = box && document.elementFromPoint((box[0] + box[2]) / 2, (box[1] + box[3]) / 2);
      if (node && !node.closest(".titlebar, nav, .tools, .thing")) return [{ name: `${leaf(own.path)} window`, box }];
    }
    return [];
  });
}

kit = mount({ start, show, read, elements: windowsBehind, tools: {
  "explorer.list_folder": (state, { folder }) => Object.entries(folderAt(state, folder).items).map(([name, node]) => ({ name, kind: kindOf(name, node), size: total(node) })),
  "explorer.move"(state, { folder, name, to }) {
    folderAt(state, to);
    move(state, folder, name, to);
    return { folder: to, name };
  },
  "explorer.copy"(state, { folder, name, to }) {
    copy(state, folder, name, to);
    return { folder: to, name };
  },
  "explorer.rename"(state, { folder, name, new_name }) {
    rename(state, folder, name, new_name);
    return { name: new_name };
  },
  "explorer.make_folder"(state, { folder, name }) {
    makeFolder(state, folder, name);
    return { folder: joined(folder, name) };
  },
  "explorer.delete"(state, { folder, name }) {
    remove(state, folder, name);
    return { name };
  },
  "explorer.compress"(state, { folder, name }) {
    compress(state, folder, name);
    return { folder };
  },
  "explorer.extract"(state, { folder, name }) {
    extract(state, folder, name);
    return { folder };
  },
} });
