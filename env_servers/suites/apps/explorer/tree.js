// The explorer's tree of folders, files and archives: what there is, and what can be done to it. Whatever cannot be done
// throws an Error that says why.
"use strict";

// --- what there is -----------------------------------------------------------------------------------------------------
const isFolder = (node) => node.items !== undefined && node.size === undefined;
const total = (node) => node.size ?? Object.values(node.items).reduce((sum, inner) => sum + total(inner), 0);
const kindOf = (name, node) => (isFolder(node) ? "folder" : name.split(".").pop());
const leaf = (path) => path.split("/").pop();
const joined = (path, name) => `${path}/${name}`;
const nodeAt = (state, path) => path.split("/").slice(1).reduce((node, name) => node?.items?.[name], state.fs);
const folderAt = (state, path) => {
  const node = String(path).split("/")[0] === "Home" ? nodeAt(state, String(path)) : undefined;
  if (!node || !(path === "Home" || isFolder(node))) throw Error(`there is no folder ${path}`);
  return node;
};
const entryAt = (state, path, name) => {
  const node = folderAt(state, path).items[name];
  if (!node || !Object.hasOwn(folderAt(state, path).items, name)) throw Error(`there is no ${name} in ${path}`);
  return node;
};
const below = (node, path) => Object.entries(node.items).flatMap(([name, inner]) => [[path, name, inner], ...(isFolder(inner) ? below(inner, joined(path, name)) : [])]);
const front = (state) => state.windows.findLast((own) => !own.mini);

function listed(state, own) {
  const lower = (row) => row[1].toLowerCase();
  const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  const rows = own.path === "Bin" ? state.bin.map((gone) => [gone.from, gone.name, gone.node])
    : own.query ? below(nodeAt(state, own.path), own.path).filter((row) => lower(row).includes(own.query.toLowerCase()))
    : Object.entries(nodeAt(state, own.path).items).map(([name, node]) => [own.path, name, node]);
  const key = own.sort.by === "size" ? (row) => total(row[2]) : lower;
  rows.sort((a, b) => compare(lower(a), lower(b)));
  rows.sort((a, b) => (own.sort.down ? compare(key(b), key(a)) : compare(key(a), key(b))));
  return rows.sort((a, b) => isFolder(b[2]) - isFolder(a[2]));
}

// --- what can be done --------------------------------------------------------------------------------------------------
const checkedName = (text) => {
  const name = String(text ?? "").trim();
  if (!name || name.includes("/")) throw Error("a name must not be empty nor hold a slash");
  return name;
};
const put = (state, path, name, node) => {
  const { items } = folderAt(state, path);
  if (Object.hasOwn(items, name)) throw Error(`there is a ${name} in ${leaf(path)} already`);
  items[name] = node;
};
// Windows on a folder that went elsewhere close; one that still exists stays.
const tidy = (state) => {
  const there = (path) => path === "Bin" || path === "Home" || nodeAt(state, path) !== undefined;
  state.windows = state.windows.filter((own) => there(own.path));
  for (const own of state.windows) {
    own.past = own.past.filter(there);
    const names = listed(state, own).map(([, name]) => name);
    own.chosen = own.chosen.filter((name) => names.includes(name));
  }
};
const move = (state, path, name, to) => {
  const node = entryAt(state, path, name);
  if (`${to}/`.startsWith(`${joined(path, name)}/`)) throw Error(`${name} can not be moved into itself`);
  if (to === path) return;
  put(state, to, name, node);
  delete folderAt(state, path).items[name];
  tidy(state);
};
const copy = (state, path, name, to) => put(state, to, name, structuredClone(entryAt(state, path, name)));
const rename = (state, path, name, text) => {
  const node = entryAt(state, path, name), next = checkedName(text);
  if (next === name) return;
  put(state, path, next, node);
  delete folderAt(state, path).items[name];
  tidy(state);
};
const remove = (state, path, name) => {
  state.bin.push({ from: path, name, node: entryAt(state, path, name) });
  delete folderAt(state, path).items[name];
  tidy(state);
};
const makeFolder = (state, path, text) => put(state, path, checkedName(text), { items: {}, date: "today", star: false });
const compress = (state, path, name) => {
  const items = { [name]: structuredClone(entryAt(state, path, name)) };
  const size = Math.floor((total(items[name]) * 3) / 5) + 1;
  put(state, path, `${isFolder(items[name]) ? name : name.replace(/\.[^.]*$/, "")}.zip`, { items, size, date: "today", star: false });
};
const extract = (state, path, name) => {
  const node = entryAt(state, path, name);
  if (kindOf(name, node) !== "zip" || !node.items) throw Error(`${name} is no archive`);
  put(state, path, name.replace(/\.zip$/, ""), { items: structuredClone(node.items), date: "today", star: false });
};
const restore = (state, name) => {
  const gone = state.bin.find((one) => one.name === name);
  put(state, gone.from, gone.name, gone.node);
  state.bin = state.bin.filter((one) => one !== gone);
  tidy(state);
};
