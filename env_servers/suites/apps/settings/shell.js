// A small shell over a tree of folders {mode, items} and files {mode, text}. `run(state, line)` returns what it prints.
"use strict";

const SHELL = (() => {
  const words = (line) => [...line.matchAll(/"([^"]*)"|'([^']*)'|(>>|>)|([^\s"'>]+)/g)].map(([, double, single, arrow, plain]) => (arrow ? { arrow } : { text: double ?? single ?? plain }));
  const parts = (state, path) => {
    const whole = path === "~" || path.startsWith("~/") ? state.home + path.slice(1) : path.startsWith("/") ? path : `${state.terminal.cwd}/${path}`;
    const found = [];
    for (const part of whole.split("/")) {
      if (part === "..") found.pop();
      else if (part && part !== ".") found.push(part);
    }
    return found;
  };
  const find = (state, names) => names.reduce((node, name) => (node?.items && Object.hasOwn(node.items, name) ? node.items[name] : undefined), state.fs);
  const missing = (path) => Error(`${path}: no such file or folder`);
  const get = (state, path) => {
    const node = find(state, parts(state, path));
    if (!node) throw missing(path);
    return node;
  };
  const file = (state, path) => {
    const node = get(state, path);
    if (node.items) throw Error(`${path}: is a folder`);
    return node;
  };
  // [folder, name] of a place that may be new.
  const spot = (state, path) => {
    const names = parts(state, path), name = names.at(-1);
    const folder = find(state, names.slice(0, -1));
    if (!name || !folder?.items) throw missing(path);
    return [folder, name];
  };
  const write = (state, path, text, more) => {
    const [folder, name] = spot(state, path);
    const old = Object.hasOwn(folder.items, name) ? folder.items[name] : null;
    if (old?.items) throw Error(`${path}: is a folder`);
    folder.items[name] = { mode: old?.mode ?? "644", text: (more && old ? old.text : "") + text };
  };
  // Where `from` lands when it is put at `to`: inside it, if it is a folder.
  const target = (state, from, to) => {
    const node = find(state, parts(state, to));
    return node?.items ? [node, parts(state, from).at(-1)] : spot(state, to);
  };
  const given = (args, count, usage) => {
    if (args.length !== count) throw Error(`usage: ${usage}`);
    return args;
  };
  const listed = ([name, node], long) => (long ? `${node.items ? "d" : "-"}${node.mode}  ${name}` : name + (node.items ? "/" : ""));
  const COMMANDS = {
    help: () => `commands: ${Object.keys(COMMANDS).join(" ")}`,
    pwd: (state) => state.terminal.cwd,
    whoami: (state) => state.home.split("/").pop(),
    clear: (state) => { state.terminal.lines = []; return null; },
    ls(state, args) {
      const long = args[0] === "-l", [path = "."] = args.slice(long ? 1 : 0);
      const node = get(state, path);
      const all = node.items ? Object.entries(node.items).sort(([a], [b]) => (a < b ? -1 : 1)) : [[path, node]];
      return all.map((one) => listed(one, long)).join(long ? "\n" : "  ");
    },
    cd(state, [path = "~"]) {
      if (!get(state, path).items) throw Error(`${path}: is not a folder`);
      state.terminal.cwd = `/${parts(state, path).join("/")}`;
      return "";
    },
    cat: (state, args) => given(args, 1, "cat FILE").map((path) => file(state, path).text.replace(/\n$/, ""))[0],
    grep(state, args) {
      const [what, path] = given(args, 2, "grep TEXT FILE");
      return file(state, path).text.split("\n").filter((line) => line && line.includes(what)).join("\n");
    },
    echo: (state, args) => args.join(" "),
    mkdir(state, args) {
      const [path] = given(args, 1, "mkdir FOLDER"), [folder, name] = spot(state, path);
      if (Object.hasOwn(folder.items, name)) throw Error(`${path}: exists already`);
      folder.items[name] = { mode: "755", items: {} };
      return "";
    },
    touch(state, args) {
      const [path] = given(args, 1, "touch FILE");
      if (!find(state, parts(state, path))) write(state, path, "", false);
      return "";
    },
    mv(state, args) {
      const [from, to] = given(args, 2, "mv FROM TO"), node = get(state, from), [old, was] = spot(state, from), [folder, name] = target(state, from, to);
      if (`/${parts(state, to).join("/")}/`.startsWith(`/${parts(state, from).join("/")}/`)) throw Error(`${from}: cannot be moved into itself`);
      delete old.items[was];
      folder.items[name] = node;
      return "";
    },
    cp(state, args) {
      const [from, to] = given(args, 2, "cp FROM TO"), node = file(state, from), [folder, name] = target(state, from, to);
      folder.items[name] = { ...node };
      return "";
    },
    rm(state, args) {
      const deep = args[0] === "-r", [path] = given(args.slice(deep ? 1 : 0), 1, "rm [-r] FILE"), [folder, name] = spot(state, path);
      if (get(state, path).items && !deep) throw Error(`${path}: is a folder (rm -r removes folders)`);
      delete folder.items[name];
      return "";
    },
    chmod(state, args) {
      const [mode, path] = given(args, 2, "chmod MODE FILE"), node = get(state, path);
      if (!/^[0-7]{3}$/.test(mode)) throw Error(`${mode}: a mode is three digits from 0 to 7`);
      node.mode = mode;
      return "";
    },
    useradd(state, args) {
      addUser(state, given(args, 1, "useradd NAME")[0]);
      return "";
    },
    userdel(state, args) {
      removeUser(state, given(args, 1, "userdel NAME")[0]);
      return "";
    },
    settings(state, [verb, key, value]) {
      if (verb === "list") return Object.entries(KEYS).map(([name, one]) => `${name} ${one.get(state)}`).join("\n");
      if (!KEYS[key] || !["get", "set"].includes(verb)) throw Error("usage: settings list | settings get KEY | settings set KEY VALUE");
      if (verb === "set") setKey(state, key, value ?? "");
      return String(KEYS[key].get(state));
    },
  };

  function run(state, line) {
    const all = words(line.trim());
    const arrow = all.findIndex((one) => one.arrow);
    const [command, ...args] = (arrow < 0 ? all : all.slice(0, arrow)).map((one) => one.text);
    if (command === undefined) return "";
    if (!Object.hasOwn(COMMANDS, command)) throw Error(`${command}: command not found (try help)`);
    const printed = COMMANDS[command](state, args);
    if (arrow < 0) return printed;
    const into = all[arrow + 1]?.text;
    if (!into || all.length !== arrow + 2) throw Error("usage: COMMAND > FILE");
    write(state, into, `${printed ?? ""}\n`, all[arrow].arrow === ">>");
    return "";
  }
  return { run };
})();
