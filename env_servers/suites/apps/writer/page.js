// Writer: a list of documents and an editor for one of them (Quill holds the text while it is open).
"use strict";

const STYLES = ["normal", "heading 1", "heading 2", "bullets", "numbers"];
const MARKS = ["bold", "italic", "underline"];

// --- lines of the state <-> Quill's delta ------------------------------------------------------------------------------
function toDelta(lines) {
  const ops = [];
  for (const { text, style, align, marks } of lines) {
    const cuts = [...new Set([0, text.length, ...marks.flatMap(([from, to]) => [from, to])])].sort((a, b) => a - b);
    cuts.slice(1).forEach((to, k) => {
      const held = marks.filter(([a, b]) => a <= cuts[k] && to <= b).map(([, , mark]) => [mark, true]);
      ops.push({ insert: text.slice(cuts[k], to), attributes: Object.fromEntries(held) });
    });
    const line = {};
    if (style.startsWith("heading")) line.header = Number(style.slice(-1));
    if (style === "bullets" || style === "numbers") line.list = style === "bullets" ? "bullet" : "ordered";
    if (align !== "left") line.align = align;
    ops.push({ insert: "\n", attributes: line });
  }
  return { ops };
}

function toLines(delta) {
  const lines = [];
  let text = "", marks = [];
  for (const { insert, attributes = {} } of delta.ops) {
    String(typeof insert === "string" ? insert : "").split("\n").forEach((part, k) => {
      if (k) {
        const style = attributes.header ? `heading ${attributes.header}` : { bullet: "bullets", ordered: "numbers" }[attributes.list] ?? "normal";
        lines.push({ text, style: STYLES.includes(style) ? style : "normal", align: attributes.align ?? "left", marks });
        [text, marks] = ["", []];
      }
      for (const mark of MARKS) {
        if (!part || !attributes[mark]) continue;
        const last = marks.findLast((other) => other[2] === mark && other[1] === text.length);
        if (last) last[1] += part.length;
        else marks.push([text.length, text.length + part.length, mark]);
      }
      text += part;
    });
  }
  for (const line of lines) line.marks.sort((a, b) => a[0] - b[0] || (a[2] < b[2] ? -1 : 1));
  return lines;
}

// --- the document's parts ----------------------------------------------------------------------------------------------
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
const plain = ({ text, style, align, marks }) => ({ text, style, align, marks });
const theDoc = (state) => state.docs.find((doc) => doc.id === state.open);
let quill, kit, shownState, shownDoc;
const part = {};

function absorb(state) {
  const doc = theDoc(state);
  if (!doc || shownState !== state || shownDoc !== doc.id) return;
  const lines = toLines(quill.getContents());
  if (same(lines, doc.lines.map(plain))) return;
  Object.assign(doc, { lines, dirty: true });
}

// Do something to the text that is selected; the selection is that of the state, wherever the focus is.
const format = (how) => () => {
  const state = kit.now();
  read(state);
  if (!state.selection) return;
  how(...state.selection);
  kit.change(absorb);
};
const mark = (kind) => format((at, length) => {
  if (length) quill.formatText(at, length, kind, !quill.getFormat(at, length)[kind], "user");
});
const style = (name) => format((at, length) => {
  const is = (held) => (held.header ? `heading ${held.header}` : { bullet: "bullets", ordered: "numbers" }[held.list] ?? "normal");
  const next = is(quill.getFormat(at, length)) === name ? "normal" : name;
  quill.formatLine(at, Math.max(1, length), { header: false, list: false }, "user");
  if (next.startsWith("heading")) quill.formatLine(at, Math.max(1, length), "header", Number(next.slice(-1)), "user");
  else if (next !== "normal") quill.formatLine(at, Math.max(1, length), "list", next === "bullets" ? "bullet" : "ordered", "user");
});
const align = (side) => format((at, length) => quill.formatLine(at, Math.max(1, length), "align", side === "left" ? false : side, "user"));

const words = (state) => (state.selection?.[1] ? quill.getText(...state.selection).trim() : "");
const replaced = (doc, find, put) => {
  let count = 0;
  for (const line of doc.lines) {
    for (let at = line.text.indexOf(find); find && at >= 0; at = line.text.indexOf(find, at + put.length)) {
      line.text = line.text.slice(0, at) + put + line.text.slice(at + find.length);
      const shift = (place) => (place <= at ? place : place >= at + find.length ? place + put.length - find.length : Math.min(place, at + put.length));
      line.marks = line.marks.map(([a, b, kind]) => [shift(a), shift(b), kind]).filter(([a, b]) => a < b);
      count += 1;
    }
  }
  if (count) doc.dirty = true;
  return count;
};
const rename = (doc, name) => {
  name = String(name).trim();
  if (!name || name === doc.name) return;
  Object.assign(doc, { name });
};
const save = (state) => {
  const doc = theDoc(state);
  absorb(state);
  if (doc?.dirty) Object.assign(doc, { dirty: false, version: doc.version + 1 });
};
const openDoc = (state, id) => closeDialog(Object.assign(state, { open: id, selection: null, scroll: 0, title: state.docs.find((doc) => doc.id === id)?.name ?? "" }));
const leave = (state) => { absorb(state); openDoc(state, ""); };
const fresh = (state) => `d${Math.max(0, ...state.docs.map((doc) => Number(doc.id.slice(1)))) + 1}`;
const remove = (state, id) => { state.docs = state.docs.filter((doc) => doc.id !== id); closeDialog(state); };
const copyOf = (state, id) => {
  const doc = state.docs.find((one) => one.id === id);
  state.docs.push({ ...structuredClone(doc), id: fresh(state), name: `Copy of ${doc.name}`, star: false });
};

// --- screens -----------------------------------------------------------------------------------------------------------
function listScreen(state) {
  const rows = state.layout.view === "rows";
  const point = (event) => [event.clientX, event.clientY];
  const card = (doc) => h("div", { class: "doc", name: doc.name,
    ondblclick: () => kit.change((now) => openDoc(now, doc.id)),
    oncontextmenu: (event) => kit.change((now) => Object.assign(now, { menu: `of ${doc.id}`, at: point(event) })) },
    h("div", { class: "sheet" }, rows ? glyph("document", 22) : doc.lines.slice(0, 6).map((line) => h("div", { class: line.style === "heading 1" ? "big" : "" }, line.text))),
    h("div", { class: "what" }, h("b", {}, doc.name), h("small", {}, `${doc.kind} · ${doc.date}`)),
    h("button", { name: `star of ${doc.name}`, class: doc.star ? "tool starred" : "tool", ondblclick: (event) => event.stopPropagation(), onclick: (event) => { event.stopPropagation(); kit.change((now) => { const one = now.docs.find((other) => other.id === doc.id); one.star = !one.star; }); } }, glyph("star", 18, doc.star ? "currentColor" : "none")));
  return [
    h("header", {}, glyph("document", 26), h("h1", {}, "Documents"), h("span", { class: "space" }),
      h("button", { name: "new document", class: "primary", onclick: () => kit.change((now) => openDialog(now, "new", { name: "" })) }, glyph("plus", 16), "New document")),
    h("div", { class: rows ? "docs rows" : "docs grid", name: "document list" }, state.docs.map(card)),
  ];
}

function topBar(state) {
  const doc = theDoc(state);
  const held = state.selection ? quill.getFormat(...state.selection) : {};
  const groups = {
    marks: [tool("bold", h("b", {}, "B"), mark("bold"), held.bold), tool("italic", h("i", {}, "I"), mark("italic"), held.italic), tool("underline", h("u", {}, "U"), mark("underline"), held.underline)],
    lists: [tool("bullets", "bullets", style("bullets"), held.list === "bullet"), tool("numbers", "numbers", style("numbers"), held.list === "ordered")],
    sides: ["left", "center", "right"].map((side) => tool(`align ${side}`, side, align(side), (held.align ?? "left") === side && !!state.selection)),
    more: [tool("comment button", "comment", ask("comment", { comment: "" })), tool("find button", "search", ask("find", { find: "", replace: "" }))],
  };
  const now = held.header ? `Heading ${held.header}` : "Normal";
  const styles = h("div", { class: "menu" },
    h("button", { name: "style list", class: "tool styles", onmousedown: still, onclick: () => kit.change((now) => (now.menu = now.menu === "style" ? "" : "style")) }, now, glyph("down", 14)),
    state.menu === "style" && h("div", { class: "drop" }, STYLES.slice(0, 3).map((name) =>
      h("button", { name: `${name} style`, class: `entry ${name.replace(" ", "-")}`, onmousedown: still, onclick: () => { kit.now().menu = ""; style(name)(); kit.change(() => {}); } }, name[0].toUpperCase() + name.slice(1)))));
  return [
    h("div", { class: "title" }, tool("documents", "back", () => kit.change(leave)), glyph("document", 22),
      h("input", { name: "title", value: state.title, spellcheck: "false", autocomplete: "off", oninput: (event) => (kit.now().title = event.target.value), onblur: named_, onkeydown: (event) => event.key === "Enter" && event.target.blur() }),
      h("span", { class: "saved" }, doc.dirty ? "Unsaved changes" : `Saved · version ${doc.version}`), h("span", { class: "space" }), h("small", {}, doc.kind)),
    menuBar(state, kit.change, {
      File: [["Save", save], ["Rename", (now) => openDialog(now, "rename", { name: theDoc(now).name })], ["Close", leave]],
      Edit: [["Undo", () => { quill.history.undo(); }], ["Find and replace…", (now) => openDialog(now, "find", { find: "", replace: "" })]],
      Insert: [["Comment…", (now) => openDialog(now, "comment", { comment: "" })], ["Footer…", (now) => openDialog(now, "footer", { footer: theDoc(now).footer })]],
      Format: [["Centre", () => align("center")()], ["Bulleted list", () => style("bullets")()], ["Numbered list", () => style("numbers")()]],
    }),
    h("div", { class: "tools" }, styles, state.layout.tools.flatMap((group) => [h("span", { class: "gap" }), ...groups[group]])),
  ];
}
const ask = (kind, fields) => () => kit.change((now) => openDialog(now, kind, { ...fields }));
const named_ = () => { const now = kit.now(); if (theDoc(now)) { rename(theDoc(now), now.title); now.title = theDoc(now).name; } };

const DIALOGS = {
  new: { title: "New document", fields: ["name"], buttons: [["Cancel", closeDialog], ["Create", (now) => {
    const name = now.dialog.name.trim();
    if (!name) return;
    const doc = { id: fresh(now), name, kind: "Note", date: "today", star: false, footer: "", comments: [], dirty: false, version: 1, lines: [{ text: "", style: "normal", align: "left", marks: [] }] };
    now.docs.push(doc);
    openDoc(now, doc.id);
  }]] },
  rename: { title: "Rename the document", fields: ["name"], buttons: [["Cancel", closeDialog], ["Rename", (now) => { rename(theDoc(now), now.dialog.name); now.title = theDoc(now).name; closeDialog(now); }]] },
  find: { title: "Find and replace", fields: ["find", "replace"], buttons: [["Cancel", closeDialog], ["Replace all", (now) => { absorb(now); replaced(theDoc(now), now.dialog.find, now.dialog.replace); now.selection = null; closeDialog(now); }]] },
  comment: { title: "Comment on the selection", fields: ["comment"], buttons: [["Cancel", closeDialog], ["Add", (now) => {
    const text = now.dialog.comment.trim();
    if (text) theDoc(now).comments.push({ quote: words(now), text });
    closeDialog(now);
  }]] },
  footer: { title: "Footer", fields: ["footer"], buttons: [["Cancel", closeDialog], ["Apply", (now) => { theDoc(now).footer = now.dialog.footer.trim(); closeDialog(now); }]] },
};

function overlay(state) {
  if (state.menu.startsWith("of ")) {
    const id = state.menu.slice(3);
    return contextMenu(kit.change, state.at, [["Open", (now) => openDoc(now, id)], ["Duplicate", (now) => copyOf(now, id)], ["Delete…", (now) => openDialog(now, `delete ${id}`)]]);
  }
  const kind = state.dialog.kind;
  if (kind.startsWith("delete ")) {
    const doc = state.docs.find((one) => one.id === kind.slice(7));
    return dialogBox(kit, state, { title: "Delete the document?", text: `“${doc.name}” and its comments will be gone.`, buttons: [["Cancel", closeDialog], ["Delete", (now) => remove(now, doc.id)]] });
  }
  return kind ? dialogBox(kit, state, DIALOGS[kind]) : "";
}

function show(state) {
  paint(state);
  const doc = theDoc(state);
  const anew = state !== shownState || (doc && doc.id !== shownDoc);
  [shownState, shownDoc] = [state, doc?.id];
  part.list.style.display = doc ? "none" : "flex";
  part.editor.style.display = doc ? "flex" : "none";
  part.list.replaceChildren(...(doc ? [] : listScreen(state)));
  if (doc) {
    part.editor.dataset.side = state.layout.side;
    part.paper.style.width = `${state.layout.paper}px`;
    part.paper.style.fontSize = `${state.layout.size}px`;
    const lines = doc.lines.map(plain);
    if (anew || !same(toLines(quill.getContents()), lines)) quill.setContents(toDelta(lines), "silent");
    if (anew) {
      quill.history.clear();
      quill.blur();
    }
    part.foot.replaceChildren(doc.footer ? h("div", { class: "footer", name: "footer" }, doc.footer) : "");
    part.notes.replaceChildren(h("h3", {}, `Comments (${doc.comments.length})`), ...doc.comments.map((note) => h("div", { class: "note" }, note.quote && h("i", {}, `“${note.quote}”`), h("div", {}, note.text))));
    if (state.selection && !state.dialog.kind && !state.focus) {
      const at = quill.getSelection();
      if (!at || !same([at.index, at.length], state.selection)) quill.setSelection(...state.selection, "silent");
    } else if (quill.hasFocus()) quill.blur();
    part.top.replaceChildren(...topBar(state));
    if (anew) part.page.scrollTop = state.scroll;
  }
  part.over.replaceChildren(overlay(state));
  showFocus(state);
}

function read(state) {
  absorb(state);
  if (state.open && quill.hasFocus()) {
    const at = quill.getSelection();
    state.selection = at ? [at.index, at.length] : null;
  }
  if (state.open) state.scroll = Math.round(part.page.scrollTop);
  readFocus(state);
}

// Words that stand once in the text, and its paragraphs, by their number.
function targets(state, seen) {
  if (!state.open) return [];
  const found = [], count = {};
  const range = document.createRange();
  const walker = document.createTreeWalker(quill.root, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    for (const hit of node.data.matchAll(/[A-Za-z]{3,}/g)) {
      count[hit[0]] = (count[hit[0]] ?? 0) + 1;
      range.setStart(node, hit.index);
      range.setEnd(node, hit.index + hit[0].length);
      const rects = range.getClientRects();
      if (rects.length === 1) found.push([hit[0], rects[0]]);
    }
  }
  const box = ({ left, top, right, bottom }) => seen([left, top, right, bottom], part.page);
  const blocks = [...quill.root.children].flatMap((node) => (node.matches("ol, ul") ? [...node.children] : [node]));
  return [
    ...found.filter(([word]) => count[word] === 1).map(([word, rect]) => ({ name: `word ${word}`, box: box(rect) })),
    ...blocks.map((node, k) => ({ name: `paragraph ${k + 1}`, box: box(node.getBoundingClientRect()) })),
  ].filter((target) => target.box && target.box[3] - target.box[1] >= 14);
}

function start(root) {
  const host = h("div", { class: "text" });
  part.foot = h("div");
  part.paper = h("div", { class: "paper" }, host, part.foot);
  part.page = h("div", { class: "page", name: "page" }, part.paper);
  part.notes = h("aside");
  part.top = h("div", { class: "top" });
  part.list = h("div", { class: "list" });
  part.editor = h("div", { class: "editor" }, part.top, h("div", { class: "middle" }, part.page, part.notes));
  part.over = h("div");
  root.append(part.list, part.editor, part.over);
  quill = new Quill(host, { modules: { toolbar: false, history: { delay: 0, userOnly: true } } });
  quill.root.setAttribute("spellcheck", "false");
  const bar = () => part.top.replaceChildren(...topBar(kit.now()));
  quill.on("text-change", (delta, old, source) => {
    if (source !== "user" || !kit.now()?.open) return;
    read(kit.now());
    bar();
  });
  quill.on("selection-change", (range, old, source) => {
    if (source !== "user" || !range || !kit.now()?.open) return;
    kit.now().selection = [range.index, range.length];
    if (!part.top.contains(document.activeElement)) bar();
  });
  document.addEventListener("mousedown", (event) => {
    const now = kit.now();
    if (now.menu && !event.target.closest(".drop, .menu")) kit.change(() => (now.menu = ""));
  });
  document.addEventListener("keydown", (event) => {
    const now = kit.now(), key = event.key.toLowerCase(), inText = quill.root.contains(event.target);
    if (key === "escape" && (now.menu || now.dialog.kind)) return kit.change(closeDialog);
    if (!event.ctrlKey) return;
    const act = { s: () => kit.change(save), h: now.open && ask("find", { find: "", replace: "" }), f: now.open && ask("find", { find: "", replace: "" }) }[key];
    if (act) return event.preventDefault(), act();
    if (!inText || !["c", "x", "v"].includes(key)) return;
    event.preventDefault(); // the machine's clipboard belongs to nobody here: the app keeps its own
    read(now);
    const [at, length] = now.selection ?? [0, 0];
    if (key !== "v" && length) now.clip = quill.getText(at, length);
    if (key === "c") return;
    if (length && (key === "x" || now.clip)) quill.deleteText(at, length, "user");
    if (key === "v" && now.clip) quill.insertText(at, now.clip, "user");
    quill.setSelection(at + (key === "v" ? now.clip.length : 0), 0, "user");
  }, true);
}

const by = (state, name) => {
  absorb(state);
  const doc = state.docs.find((one) => one.name === name);
  if (!doc) throw Error(`there is no document ${name}`);
  return doc;
};
const need = (text, what) => {
  if (typeof text !== "string" || !text.trim()) throw Error(`${what} must be a text that is not empty`);
  return text.trim();
};
kit = mount({ start, show, read, elements: targets, tools: {
  "writer.replace_all"(state, { document, find, replace }) {
    const doc = by(state, document);
    if (typeof replace !== "string") throw Error("replace must be a text");
    const count = replaced(doc, need(find, "find"), replace);
    if (!count) throw Error(`${document} does not hold ${find}`);
    state.selection = null;
    return { replaced: count };
  },
  "writer.rename_document"(state, { document, name }) {
    const doc = by(state, document);
    rename(doc, need(name, "name"));
    if (doc.id === state.open) state.title = doc.name;
    return { name: doc.name };
  },
  "writer.set_footer"(state, { document, text }) {
    by(state, document).footer = need(text, "text");
    return { document };
  },
  "writer.append_line"(state, { document, text }) {
    const doc = by(state, document);
    doc.lines.push({ text: need(text, "text"), style: "normal", align: "left", marks: [] });
    doc.dirty = true;
    return { lines: doc.lines.length };
  },
  "writer.read_document"(state, { document }) {
    const { lines, footer, comments } = by(state, document);
    return { lines: lines.map((line) => line.text), footer, comments };
  },
} });
