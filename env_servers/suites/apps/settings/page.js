// Settings: a desktop with two windows that can be moved and closed: settings panels, and a terminal.
"use strict";

const SIZE = { settings: [640, 440], terminal: [540, 300] };
const BAR = 28; // css px of the top bar
const SCALES = ["100", "125", "150", "200"];
const SLIDERS = { brightness: ["display", "brightness"], volume: ["sound", "volume"] };
let kit, part, shownState, drag = null;

// --- what can be set ---------------------------------------------------------------------------------------------------
const level = (text) => {
  const value = Number(text);
  if (String(text).trim() === "" || !Number.isInteger(value) || value < 0 || value > 100) throw Error("the value must be a whole number from 0 to 100");
  return value;
};
const onOff = (text) => {
  if (!["on", "off", true, false].includes(text)) throw Error("the value must be on or off");
  return text === "on" || text === true;
};
const oneOf = (all) => (text) => {
  if (!all.includes(String(text))) throw Error(`the value must be one of ${all.join(", ")}`);
  return String(text);
};
const entry = (group, name, check, say = (value) => value) => ({ get: (state) => say(state.settings[group][name]), set: (state, text) => (state.settings[group][name] = check(text, state)) });
const yes = (value) => (value ? "on" : "off");
const setWifi = (state, on) => Object.assign(state.settings.network, { wifi: on, connected: on ? state.settings.network.connected : "" });
const KEYS = {
  "display.brightness": entry("display", "brightness", level),
  "display.night-light": entry("display", "night", onOff, yes),
  "display.scale": entry("display", "scale", oneOf(SCALES)),
  "sound.volume": entry("sound", "volume", level),
  "sound.mute": entry("sound", "mute", onOff, yes),
  "sound.output": entry("sound", "output", (text, state) => oneOf(state.settings.sound.outputs)(text)),
  "network.wifi": { get: (state) => yes(state.settings.network.wifi), set: (state, text) => setWifi(state, onOff(text)) },
  "notifications.quiet": entry("notifications", "quiet", onOff, yes),
  "device.name": entry("device", "name", (text) => { if (!/^[\w-]{2,30}$/.test(text)) throw Error("a name has 2 to 30 letters, digits or dashes"); return text; }),
};
const setKey = (state, key, value) => {
  if (!Object.hasOwn(KEYS, key)) throw Error(`there is no setting ${key}: use one of ${Object.keys(KEYS).join(", ")}`);
  KEYS[key].set(state, value);
  if (key === "device.name") state.field = state.settings.device.name;
};
const addUser = (state, name) => {
  name = String(name ?? "").trim();
  if (!/^[A-Za-z][\w-]{1,20}$/.test(name)) throw Error("a user's name has 2 to 21 letters, digits or dashes");
  if (state.settings.users.some((user) => user.name === name)) throw Error(`there is a user ${name} already`);
  state.settings.users.push({ name, role: "Standard" });
};
const removeUser = (state, name) => {
  const user = state.settings.users.find((one) => one.name === name);
  if (!user) throw Error(`there is no user ${name}`);
  if (state.home.endsWith(`/${name}`)) throw Error("the user who is logged in cannot be removed");
  state.settings.users = state.settings.users.filter((one) => one !== user);
};

// --- windows -----------------------------------------------------------------------------------------------------------
const windowOf = (state, app) => state.windows.find((one) => one.app === app);
function raise(state, app) {
  const own = windowOf(state, app) ?? { app, x: state.layout.places[app][0], y: state.layout.places[app][1] };
  state.windows = [...state.windows.filter((one) => one !== own && one.app !== app), own];
  if (app === "terminal") state.focus = "terminal input";
  else if (state.focus === "terminal input") state.focus = "";
}
const close = (state, app) => {
  state.windows = state.windows.filter((one) => one.app !== app);
  state.focus = "";
};
const within = (value, most) => Math.min(Math.max(value, 0), most);

function frame(state, own, top, content) {
  const { app, x, y } = own, [width, height] = SIZE[app];
  return h("section", { class: `window ${app}${top ? " top" : ""}`, style: `left: ${x}px; top: ${y}px; width: ${width}px; height: ${height}px`,
    onclick: () => { if (windowOf(state, app) && state.windows.at(-1).app !== app) kit.change((now) => raise(now, app)); } },
    h("div", { class: "titlebar", name: `${app} title`, onmousedown: (event) => { event.preventDefault(); drag = { app, dx: event.clientX - own.x, dy: event.clientY - own.y }; } },
      h("b", {}, app === "settings" ? "Settings" : "Terminal"),
      h("button", { name: `close ${app}`, class: "cross", onmousedown: (event) => event.stopPropagation(), onclick: () => kit.change((now) => close(now, app)) }, glyph("close", 14))),
    content);
}

// --- settings ----------------------------------------------------------------------------------------------------------
const line = (title, hint, control) => h("div", { class: "line" }, h("div", { class: "said" }, h("b", {}, title), hint && h("small", {}, hint)), control);
const toggle = (name, on, flip) => h("button", { name, class: on ? "switch on" : "switch", onclick: () => kit.change(flip) }, h("i", {}));
const flip = (group, name) => (now) => (now.settings[group][name] = !now.settings[group][name]);
const plain = (name, face, press) => h("button", { name, class: "plain", onclick: () => kit.change(press) }, face);

function slider(state, name, value) {
  const grip = (event) => { event.preventDefault(); drag = { slider: name }; slide(event); };
  const ticks = [0, 20, 40, 60, 80, 100];
  return h("div", { class: "slider", "data-slider": name, onmousedown: grip },
    h("div", { class: "track" }, h("div", { class: "full", style: `width: ${value}%` }), h("div", { class: "knob", name: `${name} knob`, style: `left: ${value}%` })),
    h("div", { class: "ticks" }, ticks.map((tick) => h("span", { name: `${name} ${tick}`, style: `left: ${tick}%` }, String(tick)))),
    h("output", {}, `${value} %`));
}
function slide(event) {
  const track = part.desk.querySelector(`[data-slider="${drag.slider}"] .track`)?.getBoundingClientRect();
  if (!track) return;
  const value = within(Math.round(((event.clientX - track.left) / track.width) * 20) * 5, 100);
  const [group, name] = SLIDERS[drag.slider];
  if (kit.now().settings[group][name] !== value) kit.change((now) => (now.settings[group][name] = value));
}

const PANELS = {
  display: (state, { display }) => [
    line("Brightness", "", slider(state, "brightness", display.brightness)),
    line("Night light", "Warmer colours in the evening", toggle("night light", display.night, flip("display", "night"))),
    line("Scale", "Size of texts and icons", h("div", { class: "choice" }, SCALES.map((scale) =>
      h("button", { name: `scale ${scale}`, class: display.scale === scale ? "on" : "", onclick: () => kit.change((now) => (now.settings.display.scale = scale)) }, `${scale} %`)))),
  ],
  sound: (state, { sound }) => [
    line("Volume", "", slider(state, "volume", sound.volume)),
    line("Mute", "No sound at all", toggle("mute", sound.mute, flip("sound", "mute"))),
    h("h3", {}, "Output"),
    ...sound.outputs.map((name) => h("button", { name: `output ${name}`, class: "radio", onclick: () => kit.change((now) => (now.settings.sound.output = name)) }, h("i", { class: sound.output === name ? "on" : "" }), name)),
  ],
  network: (state, { network }) => [
    line("Wi-Fi", network.wifi ? (network.connected ? `Connected to ${network.connected}` : "Not connected") : "Off", toggle("wifi", network.wifi, (now) => setWifi(now, !now.settings.network.wifi))),
    network.wifi && h("h3", {}, "Networks"),
    ...(network.wifi ? network.networks.map((name) => line(name, network.connected === name ? "Connected" : network.known.includes(name) ? "Known" : "Secured", h("div", { class: "choice bare" },
      network.known.includes(name) && plain(`forget ${name}`, "Forget", (now) => { const net = now.settings.network; net.known = net.known.filter((one) => one !== name); if (net.connected === name) net.connected = ""; }),
      network.connected !== name && plain(`connect ${name}`, "Connect", (now) => {
        if (now.settings.network.known.includes(name)) now.settings.network.connected = name;
        else openDialog(now, `join ${name}`, { password: "" });
      })))) : []),
  ],
  users: (state, { users }) => [
    ...users.map(({ name, role }) => line(name, role, h("div", { class: "choice bare" },
      plain(`role of ${name}`, role === "Standard" ? "Make administrator" : "Make standard", (now) => { const user = now.settings.users.find((one) => one.name === name); user.role = role === "Standard" ? "Administrator" : "Standard"; }),
      !state.home.endsWith(`/${name}`) && plain(`remove ${name}`, "Remove…", (now) => openDialog(now, `remove ${name}`))))),
    h("button", { name: "add user", class: "wide", onclick: () => kit.change((now) => openDialog(now, "user", { name: "" })) }, glyph("plus", 15), "Add user…"),
  ],
  notifications: (state, { notifications }) => [
    line("Do not disturb", "Hide all notifications", toggle("do not disturb", notifications.quiet, flip("notifications", "quiet"))),
    h("h3", {}, "Apps"),
    ...notifications.order.map((app) => line(app, "", toggle(`notifications of ${app}`, notifications.apps[app], (now) => (now.settings.notifications.apps[app] = !now.settings.notifications.apps[app])))),
  ],
  about: (state, { device }) => [
    line("Device name", "", h("div", { class: "choice bare" },
      h("input", { name: "device name", type: "text", value: state.field, spellcheck: "false", autocomplete: "off", oninput: (event) => (kit.now().field = event.target.value) }),
      plain("apply", "Apply", (now) => { try { setKey(now, "device.name", now.field.trim()); } catch { now.field = now.settings.device.name; } now.focus = ""; }))),
    ...Object.entries(device.facts).map(([name, value]) => line(name, "", h("span", { class: "fact" }, value))),
  ],
};
const GLYPH = { display: "display", sound: "sound", network: "network", users: "users", notifications: "bell", about: "about" };

const settingsWindow = (state) => h("div", { class: "split" },
  h("nav", {}, state.layout.panels.map((panel) => h("button", { name: `${panel} panel`, class: panel === state.panel ? "on" : "", onclick: () => kit.change((now) => Object.assign(now, { panel, field: now.settings.device.name, scroll: 0, focus: "" })) }, glyph(GLYPH[panel], 17), panel[0].toUpperCase() + panel.slice(1)))),
  h("div", { class: "panel", name: `${state.panel} settings` }, h("h2", {}, state.panel[0].toUpperCase() + state.panel.slice(1)), PANELS[state.panel](state, state.settings)));

// --- terminal ----------------------------------------------------------------------------------------------------------
const prompt = (state) => `${state.home.split("/").pop()}@${state.settings.device.name}:${state.terminal.cwd.replace(state.home, "~")}$`;
function enter(state, text) {
  let printed;
  const asked = `${prompt(state)} ${text}`;
  try {
    printed = SHELL.run(state, text);
  } catch (error) {
    printed = error.message;
  }
  if (printed !== null) state.terminal.lines.push(asked, ...(printed ? printed.split("\n") : []));
  state.terminal.lines = state.terminal.lines.slice(-100);
  return printed ?? "";
}
const terminalWindow = (state) => h("div", { class: "screen", name: "terminal screen", onmouseup: () => part.desk.querySelector("[data-name='terminal input']")?.focus() },
  state.terminal.lines.map((text) => h("div", { class: "out" }, text || " ")),
  h("div", { class: "in" }, h("span", {}, prompt(state)), h("input", { name: "terminal input", type: "text", value: state.terminal.input, spellcheck: "false", autocomplete: "off",
    oninput: (event) => (kit.now().terminal.input = event.target.value),
    onkeydown: (event) => event.key === "Enter" && kit.change((now) => { const text = now.terminal.input; now.terminal.input = ""; now.focus = "terminal input"; enter(now, text); }) })));

// --- the desktop -------------------------------------------------------------------------------------------------------
const attempt = (how) => (now) => { try { how(now); } catch { return; } closeDialog(now); };
function overlay(state) {
  const kind = state.dialog.kind, name = kind.slice(kind.indexOf(" ") + 1);
  if (kind === "user") return dialogBox(kit, state, { title: "Add a user", fields: ["name"], buttons: [["Cancel", closeDialog], ["Create", attempt((now) => addUser(now, now.dialog.name))]] });
  if (kind.startsWith("remove ")) return dialogBox(kit, state, { title: "Remove the user?", text: `All files of ${name} stay on the disk.`, buttons: [["Cancel", closeDialog], ["Remove", attempt((now) => removeUser(now, name))]] });
  if (kind.startsWith("join ")) return dialogBox(kit, state, { title: `Connect to ${name}`, fields: ["password"], buttons: [["Cancel", closeDialog], ["Connect", (now) => {
    if (now.dialog.password !== now.passwords[name]) return Object.assign(now, { dialog: { ...now.dialog, password: "" }, focus: "password box" });
    const net = now.settings.network;
    Object.assign(net, { connected: name, known: [...net.known, name].sort() });
    closeDialog(now);
  }]] });
  return "";
}

function show(state) {
  paint(state);
  const anew = state !== shownState;
  shownState = state;
  if (anew) drag = null;
  part.desk.dataset.dock = state.layout.dock;
  part.desk.style.backgroundImage = `radial-gradient(circle at ${state.layout.light}% 30%, color-mix(in srgb, var(--accent) 45%, #ffffff), color-mix(in srgb, var(--accent) 85%, #000000))`;
  const top = state.windows.at(-1);
  part.desk.replaceChildren(
    h("div", { class: "topbar" }, h("b", {}, state.settings.device.name), h("span", { class: "space" }), state.settings.notifications.quiet && glyph("bell", 15), state.settings.network.wifi && glyph("network", 15), glyph("sound", 15), h("span", {}, `${state.settings.sound.mute ? 0 : state.settings.sound.volume} %`), h("span", {}, state.layout.day)),
    h("div", { class: "dock" }, state.layout.icons.map((app) => h("button", { name: `${app} icon`, class: `icon ${app}${windowOf(state, app) ? " running" : ""}`, onmousedown: still, onclick: () => kit.change((now) => raise(now, app)) }, glyph(app === "settings" ? "gear" : "terminal", 26)))),
    ...state.windows.map((own) => frame(state, own, own === top, own.app === "settings" ? settingsWindow(state) : terminalWindow(state))));
  part.over.replaceChildren(overlay(state));
  const screen = part.desk.querySelector(".screen"), panel = part.desk.querySelector(".panel");
  if (screen) screen.scrollTop = screen.scrollHeight;
  if (panel && anew) panel.scrollTop = state.scroll;
  showFocus(state);
}

function read(state) {
  state.scroll = Math.round(part.desk.querySelector(".panel")?.scrollTop ?? 0);
  readFocus(state);
}

function start(root) {
  part = { desk: h("div", { class: "desk" }), over: h("div") };
  root.append(part.desk, part.over);
  document.addEventListener("mousemove", (event) => {
    const now = kit.now();
    if (drag?.slider) slide(event);
    else if (drag) {
      const [width] = SIZE[drag.app], { app, dx, dy } = drag;
      kit.change(() => Object.assign(windowOf(now, app), { x: Math.max(within(event.clientX - dx, innerWidth - width), now.layout.dock === "left" ? 90 : 0), y: BAR + within(event.clientY - dy - BAR, innerHeight - BAR - 80) }));
    }
    const name = event.target.closest?.("[data-name]")?.dataset.name ?? "";
    now.pointer = /(title|knob)$/.test(name) ? name : "";
  });
  document.addEventListener("mouseup", () => (drag = null));
  document.addEventListener("keydown", (event) => { if (event.key === "Escape" && kit.now().dialog.kind) kit.change(closeDialog); });
}

kit = mount({ start, show, read, tools: {
  "settings.set"(state, { key, value }) {
    setKey(state, key, value);
    return { [key]: KEYS[key].get(state) };
  },
  "settings.add_user"(state, { name }) {
    addUser(state, name);
    return { users: state.settings.users.map((user) => user.name) };
  },
  "settings.remove_user"(state, { name }) {
    removeUser(state, name);
    return { users: state.settings.users.map((user) => user.name) };
  },
  "settings.run_command"(state, { command }) {
    if (typeof command !== "string" || !command.trim()) throw Error("command must be a text that is not empty");
    const printed = SHELL.run(state, command);
    return { printed: printed ?? "" };
  },
} });
