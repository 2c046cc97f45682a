// Admin: users, orders and stock of a shop in tables: sort, filter, search, pages, cells to edit, rows to choose, bulk
// changes, adding, deleting, exporting. tabulator draws the table, sorts it, turns its pages and edits its cells.
"use strict";

const TABLES = {
  users: { key: "name", choice: "role", options: ["Reader", "Editor", "Manager", "Admin", "Blocked"], title: "Users", edited: ["city"], numbers: [] },
  orders: { key: "number", choice: "status", options: ["New", "Paid", "Packed", "Shipped", "Returned"], title: "Orders", edited: [], numbers: ["amount"] },
  stock: { key: "item", choice: "shelf", options: ["A1", "A2", "B1", "B2", "C1", "C2"], title: "Stock", edited: ["price", "count"], numbers: ["price", "count"] },
};
const UNITS = { amount: " \u20ac", price: " \u20ac" };
const act = (how) => () => app.change(how);
const kind = (state) => TABLES[state.at.page];
const view = (state) => state.views[state.at.page];
const rowsOf = (state) => state.tables[state.at.page];
const keyOf = (state, row) => row[kind(state).key];
const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

function filtered(state, tab = state.at.page) {
  const { query, filter } = state.views[tab];
  const { choice: field } = TABLES[tab];
  return state.tables[tab].filter((row) =>
    (filter === "All" || row[field] === filter) && Object.values(row).some((value) => String(value).toLowerCase().includes(query.toLowerCase())));
}
const pagesOf = (state) => Math.max(1, Math.ceil(filtered(state).length / state.layout.size));

function openTab(state, page) {
  go(state, { page });
  Object.assign(state, { form: null, typed: view(state).query });
}
function search(state, text) {
  Object.assign(view(state), { query: text.trim(), page: 1 });
  state.typed = text.trim();
}
function reset(state) {
  Object.assign(view(state), { query: "", filter: "All", page: 1 });
  state.typed = "";
}
function choose(state, key) {
  const chosen = view(state).chosen;
  view(state).chosen = chosen.includes(key) ? chosen.filter((other) => other !== key) : [...chosen, key].sort();
}
function chooseAll(state) {
  const keys = filtered(state).map((row) => keyOf(state, row));
  const all = keys.every((key) => view(state).chosen.includes(key));
  view(state).chosen = all ? [] : [...new Set([...view(state).chosen, ...keys])].sort();
}
const tell = (state, title, text) => (state.dialog = { icon: "error", title, text, ok: "OK", then: "" });

function setChosen(state, value) {
  const { chosen } = view(state);
  if (!chosen.length) return tell(state, "Nothing is chosen", "Tick the rows to change first.");
  for (const row of rowsOf(state)) if (chosen.includes(keyOf(state, row))) row[kind(state).choice] = value;
  view(state).chosen = [];
  view(state).page = Math.min(view(state).page, pagesOf(state));
  state.toast = `${plural(chosen.length, "row")} changed`;
}
function askDelete(state) {
  const { chosen } = view(state);
  if (!chosen.length) return tell(state, "Nothing is chosen", "Tick the rows to delete first.");
  state.dialog = { icon: "warning", title: `Delete ${plural(chosen.length, "row")}?`, text: chosen.join(", "), ok: "Yes, delete", cancel: "Keep", then: "delete" };
}
function remove(state, tab, keys) {
  const { key } = TABLES[tab];
  state.tables[tab] = state.tables[tab].filter((row) => !keys.includes(row[key]));
  state.views[tab].chosen = state.views[tab].chosen.filter((one) => !keys.includes(one));
  const pages = Math.max(1, Math.ceil(filtered(state, tab).length / state.layout.size));
  state.views[tab].page = Math.min(state.views[tab].page, pages);
}
function askExport(state) {
  const rows = filtered(state);
  const sum = rows.reduce((total, row) => total + (row.amount ?? 0), 0);
  const what = { users: "user", orders: "order", stock: "item" }[state.at.page];
  const text = `${plural(rows.length, what)}${state.at.page === "orders" ? `, ${sum} euros in total` : ""}`;
  state.dialog = { icon: "info", title: `Export ${kind(state).title.toLowerCase()}`, text, ok: "Download", cancel: "Close", then: "export" };
}
function exportRows(state) {
  const keys = filtered(state).map((row) => keyOf(state, row));
  state.exports = [...state.exports, { tab: state.at.page, keys }];
}
// A cell's new value as its field takes it; throws where it does not.
function checked(tab, field, value) {
  const { numbers, choice: chosen, options } = TABLES[tab];
  const text = String(value).trim();
  if (numbers.includes(field)) {
    if (!/^\d{1,6}$/.test(text)) throw Error(`${field} must be a whole number`);
    return Number(text);
  }
  if (field === chosen && !options.includes(text)) throw Error(`${field} must be one of ${options.join(", ")}`);
  if (!text) throw Error(`${field} must not be empty`);
  return text;
}
function addUser(state, { name, mail, role, city }) {
  if (!name.trim()) throw Error("The user needs a name.");
  if (state.tables.users.some((row) => row.name === name.trim())) throw Error("There is a user of this name already.");
  if (!/^\S+@\S+\.\S+$/.test(mail.trim())) throw Error("This is no mail address.");
  if (!TABLES.users.options.includes(role)) throw Error("The user needs a role.");
  state.tables.users = [{ name: name.trim(), mail: mail.trim(), city: city.trim(), role }, ...state.tables.users];
}

// --- what is drawn ---------------------------------------------------------------------------------------------------
const [head, tools, host, over] = ["header", "div", "div", "div"].map((tag) => h(tag));
let table = null;
let drawn = ""; // what the table shows
let rest = Promise.resolve();

const look = (state) => JSON.stringify([state.at.page, filtered(state), view(state).chosen, view(state).sort, view(state).page, state.layout]);

function nameParts() {
  const names = { first: "first page", prev: "previous page", next: "next page", last: "last page" };
  for (const button of host.querySelectorAll(".tabulator-page")) named(button, names[button.dataset.page] ?? `page ${button.dataset.page}`);
}

function column(state, field) {
  const { page } = state.at;
  const { key, choice: chosen, edited, numbers } = TABLES[page];
  const number = numbers.includes(field);
  return {
    field, title: field[0].toUpperCase() + field.slice(1), sorter: number ? "number" : "string", hozAlign: number ? "right" : "left",
    widthGrow: { mail: 2.2, name: 1.5, customer: 1.4, item: 1.3 }[field] ?? 1,
    editor: edited.includes(field) ? "input" : undefined, editorParams: { selectContents: true },
    formatter(cell) {
      named(cell.getElement(), `${field} of ${cell.getData()[key]}`);
      const text = document.createTextNode(`${cell.getValue()}${UNITS[field] ?? ""}`);
      return field === chosen ? h("span", { class: `pill p${TABLES[page].options.indexOf(cell.getValue())}` }, text) : h("span", { class: edited.includes(field) ? "editable" : "" }, text);
    },
  };
}

function build(state) {
  table?.destroy();
  const { page } = state.at;
  const { key } = TABLES[page];
  const { chosen, sort } = view(state);
  const keys = filtered(state).map((row) => row[key]);
  const all = keys.length > 0 && keys.every((one) => chosen.includes(one));
  const mark = (on) => h("span", { class: `mark ${on ? "on" : ""}` }, on ? "\u2713" : "");
  const node = h("div");
  host.replaceChildren(node);
  const mine = (table = new Tabulator(node, {
    data: structuredClone(filtered(state)), index: key, layout: "fitColumns", height: "100%", renderVertical: "basic", rowHeight: 38, autoResize: false,
    pagination: true, paginationSize: state.layout.size, paginationInitialPage: view(state).page, paginationButtonCount: 5,
    initialSort: sort ? [{ column: sort.field, dir: sort.dir }] : [], placeholder: "No rows", columnDefaults: { resizable: false },
    rowFormatter: (row) => row.getElement().classList.toggle("chosen", chosen.includes(row.getData()[key])),
    columns: [
      { title: "", width: 44, headerSort: false, hozAlign: "center", titleFormatter: () => mark(all), headerClick: act(chooseAll),
        formatter(cell) {
          const name = cell.getData()[key];
          named(cell.getElement(), `box of ${name}`);
          return mark(chosen.includes(name));
        },
        cellClick: (_, cell) => app.change((now) => choose(now, cell.getData()[key])) },
      ...state.layout.columns[page].map((field) => column(state, field)),
    ],
  }));
  rest = new Promise((done) => {
    mine.on("tableBuilt", () => {
      mine.getColumns().forEach((one) => named(one.getElement(), one.getField() ? `${one.getField()} header` : "all rows box"));
      done();
    });
  });
  mine.on("cellEdited", (cell) => {
    const now = app.now();
    if (mine !== table) return;
    try {
      const row = find(now.tables[page], (one) => one[key] === cell.getData()[key], "row");
      row[cell.getField()] = checked(page, cell.getField(), cell.getValue());
      drawn = look(now);
    } catch (error) {
      drawn = "";
      app.change((state) => tell(state, "Not changed", `Sorry, ${error.message}.`));
    }
  });
}

function bar(state) {
  return [
    h("span", { class: "brand" }, state.layout.brand),
    Object.entries(TABLES).map(([page, { title }]) => press(`${page} tab`, title, act((now) => openTab(now, page)), state.at.page === page ? "plain on" : "plain")),
    h("span", { class: "who" }, `${plural(state.exports.length, "export")} \u00b7 Administrator`),
  ];
}

function toolbar(state) {
  const { choice: field, options } = kind(state);
  const { chosen, filter } = view(state);
  const parts = {
    search: [entry("search box", state.typed, (text) => (app.now().typed = text), { placeholder: `Search ${state.at.page}`, onkeydown: enter(act((now) => search(now, now.typed))) })],
    filter: [h("label", {}, `${field[0].toUpperCase()}${field.slice(1)}`, choice("filter list", ["All", ...options], filter, (value) => app.change((now) => Object.assign(view(now), { filter: value, page: 1 })))), press("reset", "Reset", act(reset))],
    buttons: [state.at.page === "users" ? press("add", "+ Add user", act((now) => (now.form = { name: "", mail: "", role: "", city: "" })), "main") : null, press("export", "Export", act(askExport))],
  };
  return [
    h("div", { class: "line" }, state.layout.tools.map((name) => h("div", { class: `part ${name}` }, parts[name]))),
    h("div", { class: "line second" }, h("span", { class: "muted" }, `${plural(filtered(state).length, "row")}, ${chosen.length} chosen`),
      h("label", {}, `Set ${field} of the chosen rows`, choice("set list", ["", ...options], "", (value) => value && app.change((now) => setChosen(now, value)))),
      press("delete", "Delete", act(askDelete)), press("clear", "Clear choice", act((now) => (view(now).chosen = [])))),
  ];
}

function panel(state) {
  if (!state.form) return [];
  const put = (field) => (text) => (app.now().form[field] = text);
  const save = act((now) => {
    try {
      addUser(now, now.form);
      now.form = null;
      now.toast = "User added";
    } catch (error) {
      tell(now, "Not added", error.message);
    }
  });
  return h("div", { class: "veil" }, h("div", { class: "panel" }, h("h2", {}, "Add user"),
    h("label", {}, "Name", entry("name box", state.form.name, put("name"))),
    h("label", {}, "Mail address", entry("mail box", state.form.mail, put("mail"), { placeholder: "name@post.example" })),
    h("label", {}, "Role", choice("role list", ["", ...TABLES.users.options], state.form.role, (role) => app.change((now) => (now.form.role = role)))),
    h("label", {}, "City", entry("city box", state.form.city, put("city"))),
    h("div", { class: "ends" }, press("save", "Save", save, "main"), press("cancel", "Cancel", act((now) => (now.form = null))))));
}

const popup = dialogs((yes) => app.change((now) => {
  if (yes && now.dialog?.then === "delete") remove(now, now.at.page, view(now).chosen);
  if (yes && now.dialog?.then === "export") exportRows(now);
  now.dialog = null;
}));
const row = (state, tab, key) => find(state.tables[tab] ?? [], (one) => one[TABLES[tab].key] === key, `row ${key} in ${tab}`);
let root = null;

const app = mount({
  start(node) {
    root = node;
    head.className = "bar";
    [tools.className, host.className, over.className] = ["tools", "host", "over"];
    root.append(head, tools, host, over);
    // Enter ends the editing of a cell; it must not press the button of a dialog that opens upon it as well.
    host.addEventListener("keydown", (event) => event.key === "Enter" && event.preventDefault(), true);
  },
  ready: () => Promise.all([rest, popup.ready()]).then(nameParts), // the table draws its footer anew as it likes
  // Sorting and the turning of pages are the table's own doing.
  read(state) {
    if (!table?.initialized || drawn === "") return;
    const [sorter] = table.getSorters();
    Object.assign(view(state), { sort: sorter ? { field: sorter.field, dir: sorter.dir } : null, page: table.getPage() || 1 });
    drawn = look(state);
  },
  show(state) {
    dress(root, state.layout);
    head.replaceChildren(...bar(state).flat());
    tools.replaceChildren(...toolbar(state));
    over.replaceChildren(...[panel(state)].flat(), ...(state.toast ? [h("div", { class: "toast" }, state.toast)] : []));
    if (look(state) !== drawn) {
      drawn = look(state);
      build(state);
    }
    popup.show(state.dialog);
  },
  button(state, name) {
    if (name !== "Back") return;
    if (state.form) state.form = null;
    else back(state);
    state.typed = view(state).query;
  },
  goto(state, url) {
    const page = pathOf(url).slice(1).toLowerCase();
    if (TABLES[page]) openTab(state, page);
    else state.toast = "There is no such page";
  },
  tools: {
    "admin.set_cell"(state, { table: tab, row: key, field, value }) {
      const one = row(state, tab, key);
      if (![...TABLES[tab].edited, TABLES[tab].choice].includes(field)) throw Error(`${field} can not be changed`);
      one[field] = checked(tab, field, value);
      return { row: key, field };
    },
    "admin.add_user"(state, { name, mail, role }) {
      addUser(state, { name, mail, role, city: "" });
      return { name };
    },
    "admin.delete_row"(state, { table: tab, row: key }) {
      row(state, tab, key);
      remove(state, tab, [key]);
      return { row: key };
    },
    "admin.set_status"(state, { old_status: old, new_status: status }) {
      checked("orders", "status", status);
      const changed = state.tables.orders.filter((one) => one.status === old);
      for (const one of changed) one.status = status;
      return { changed: changed.length };
    },
    "admin.find_rows"(state, { table: tab, text }) {
      if (!TABLES[tab]) throw Error(`there is no table ${tab}`);
      return state.tables[tab].filter((one) => Object.values(one).join(" ").toLowerCase().includes(String(text).toLowerCase()));
    },
  },
});
