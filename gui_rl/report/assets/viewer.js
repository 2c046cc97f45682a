// The trajectory viewer. `INSIDE` is one episode with its pictures, or null: then the server is asked.
"use strict";

const $ = (id) => document.getElementById(id);
const ROW = 44; // css px of a row of the list
const MEMBERS = 32; // of a group, side by side
const FAULTS = ["env_crash", "reset_failed", "grader_error"];
const tone = (outcome) => (outcome === "success" ? "good" : FAULTS.includes(outcome) ? "fault" : "bad");
const spoken = (text) => text.replaceAll("_", " ");

let all = []; // entries
let found = []; // those that the filters let through
let at = -1; // place in `found`
let episode = null;
let step = 0;
let members = []; // of the shown episode's group, with it
const kept = new Map(); // episodes by file

function node(tag, given = {}, ...children) {
  const made = Object.assign(document.createElement(tag), given);
  made.append(...children);
  return made;
}

async function ask(path) {
  const reply = await fetch(path);
  if (!reply.ok) throw new Error(`${path}: ${reply.status} ${await reply.text()}`);
  return reply.json();
}

const picture = (of, k) => of.pictures?.[k] ?? `episodes/${encodeURIComponent(of.file)}/${k}.png`;
const steps = (of) => of.turns.length + (of.final ? 1 : 0); // the last screen has no turn
const screen = (of, k) => picture(of, k < of.turns.length ? k : "final");

async function read(file) {
  if (!kept.has(file)) {
    if (kept.size > 200) kept.delete(kept.keys().next().value);
    kept.set(file, await ask(`episodes/${encodeURIComponent(file)}`));
  }
  return kept.get(file);
}

// --- the list
function filter() {
  const words = $("words").value.toLowerCase().split(/\s+/).filter(Boolean);
  const [device, outcome, source, order] = ["device", "outcome", "source", "order"].map((id) => $(id).value);
  found = all.filter(
    (one) =>
      (!device || one.device === device) && (!outcome || one.outcome === outcome) && (!source || one.source === source) &&
      words.every((word) => one.words.includes(word)),
  );
  if (order) found.sort((a, b) => (order === "reward" ? a.reward - b.reward : b[order] - a[order]));
  at = episode ? found.findIndex((one) => one.file === episode.file) : -1;
  $("count").textContent = `${found.length} of ${all.length} episodes`;
  $("rows").style.height = `${found.length * ROW}px`;
  $("list").scrollTop = Math.max(0, at * ROW - 200);
  list();
}

function list() {
  const first = Math.max(0, Math.floor($("list").scrollTop / ROW) - 4);
  const last = Math.min(found.length, first + Math.ceil($("list").clientHeight / ROW) + 8);
  const rows = [];
  for (let k = first; k < last; k++) {
    const one = found[k];
    const row = node("div", { className: k === at ? "row on" : "row", onclick: () => go(k) },
      node("i", { className: tone(one.outcome), textContent: `${spoken(one.outcome)} ${one.reward.toFixed(2)}` }),
      node("b", { textContent: `${one.task} ${one.seed}` }),
      node("span", { textContent: `${one.device} · ${one.steps} steps · ${one.instruction}` }));
    row.style.top = `${k * ROW}px`;
    row.setAttribute("role", "option");
    rows.push(row);
  }
  $("rows").replaceChildren(...rows);
}

async function go(k) {
  if (k < 0 || k >= found.length) return;
  at = k;
  const [top, height] = [k * ROW, $("list").clientHeight];
  if (top < $("list").scrollTop) $("list").scrollTop = top;
  else if (top + ROW > $("list").scrollTop + height) $("list").scrollTop = top + ROW - height;
  list();
  const { file } = found[k];
  try {
    const read_ = await read(file);
    if (found[at]?.file === file) open(read_); // unless another was chosen meanwhile
  } catch (error) {
    $("count").textContent = error.message;
  }
}

// --- one episode
function open(next) {
  episode = next;
  step = 0;
  $("main").hidden = false;
  const source = next.policy_version < 0 ? next.source : `${next.source} at version ${next.policy_version}`;
  $("facts").replaceChildren(
    `${next.device} · ${next.suite} ${next.task} · seed ${next.seed} · ${source} · ${next.progress} of ${next.total} checkpoints · `,
    node("b", { className: tone(next.outcome), textContent: spoken(next.outcome) }));
  $("instruction").textContent = next.instruction;
  const rewards = Object.entries(next.rewards).map(([name, value]) => `${name} ${value.toFixed(3)}`);
  $("rewards").textContent = rewards.length ? `reward ${next.reward.toFixed(3)} = ${rewards.join(" + ")}` : "";
  $("screen").style.setProperty("--ratio", next.size[0] / next.size[1]);
  $("marks").setAttribute("viewBox", `0 0 ${next.size[0]} ${next.size[1]}`);
  $("export").href = INSIDE ? "#" : `episodes/${encodeURIComponent(next.file)}/export`;
  $("export").hidden = Boolean(INSIDE);
  $("strip").replaceChildren(...Array.from({ length: steps(next) }, (_, k) =>
    node("button", { onclick: () => show(k), title: k < next.turns.length ? `step ${k + 1}` : "the end" },
      node("img", { src: screen(next, k), loading: "lazy", alt: "" }))));
  show(0);
  group();
}

function show(k) {
  if (!episode || k < 0 || k >= steps(episode)) return;
  step = k;
  const turn = episode.turns[k] ?? { marks: "", conclusion: "The end.", tokens: [] };
  $("picture").src = screen(episode, k);
  $("picture").alt = `screenshot of step ${k + 1}`;
  $("marks").innerHTML = turn.marks; // numbers alone, made by the server
  $("step").textContent = k < episode.turns.length ? `step ${k + 1} of ${episode.turns.length}` : "the end";
  $("thought").textContent = turn.thought ?? "";
  $("conclusion").textContent = turn.conclusion ?? "";
  $("call").textContent = turn.parse_error ? turn.text : (turn.call ?? "");
  $("error").textContent = turn.parse_error ? spoken(turn.parse_error) : "";
  $("result").textContent = turn.tool_result ?? "";
  $("tokens-title").hidden = !turn.tokens.length;
  $("tokens").replaceChildren(...turn.tokens.map(([piece, p]) => {
    const made = node("span", { textContent: piece.replace("\n", "⏎") || "·" });
    if (p !== null) {
      made.title = `p = ${p}`;
      made.style.background = `color-mix(in srgb, var(--mark) ${Math.round(55 * (1 - p))}%, transparent)`;
    }
    return made;
  }));
  [...$("strip").children].forEach((button, n) => button.classList.toggle("on", n === k));
  for (const near of [k - 1, k + 1]) if (near >= 0 && near < steps(episode)) new Image().src = screen(episode, near);
  drawGroup();
}

// --- its group: the episodes of the same suite, task and seed, each at the shown step
async function group() {
  const { suite, task, seed, file } = episode;
  const others = all.filter((one) => one.suite === suite && one.task === task && one.seed === seed).slice(0, MEMBERS);
  members = [];
  drawGroup();
  if (others.length < 2) return;
  const read_ = await Promise.all(others.map((one) => read(one.file)));
  if (episode.file !== file) return;
  members = read_;
  drawGroup();
}

function drawGroup() {
  $("group-title").textContent = members.length ? `Group: ${members.length} episodes of this task and seed, at step ${step + 1}` : "";
  $("group").replaceChildren(...members.map((one) => {
    const k = Math.min(step, steps(one) - 1);
    const marks = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    marks.setAttribute("viewBox", `0 0 ${one.size[0]} ${one.size[1]}`);
    marks.innerHTML = one.turns[k]?.marks ?? "";
    const figure = node("figure", {}, node("img", { src: screen(one, k), alt: "" }), marks);
    figure.style.setProperty("--ratio", one.size[0] / one.size[1]);
    return node("div", { className: "member", onclick: () => choose(one.file) }, figure,
      node("p", { className: tone(one.outcome), textContent: `${one.file === episode.file ? "▸ " : ""}${spoken(one.outcome)} ${one.reward.toFixed(2)}` }),
      node("p", { textContent: one.turns[k]?.conclusion ?? "" }));
  }));
}

function choose(file) {
  const k = found.findIndex((one) => one.file === file);
  if (k >= 0) go(k);
  else read(file).then(open);
}

// --- keys
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target === $("words")) {
    if (event.key === "Escape" || event.key === "Enter") $("words").blur();
    return;
  }
  const act = {
    ArrowRight: () => show(step + 1),
    ArrowLeft: () => show(step - 1),
    ArrowDown: () => go(at + 1),
    ArrowUp: () => go(at - 1),
    Home: () => show(0),
    End: () => show(episode ? steps(episode) - 1 : 0),
    "/": () => $("words").focus(),
    g: () => $("group-title").scrollIntoView(),
  }[event.key];
  if (!act || event.target.tagName === "SELECT") return;
  event.preventDefault();
  act();
});
$("back").onclick = () => show(step - 1);
$("next").onclick = () => show(step + 1);

async function start() {
  if (INSIDE) {
    $("side").hidden = true;
    all = found = [INSIDE];
    open(INSIDE);
    return;
  }
  const { fields, rows } = await ask("episodes");
  all = rows.map((row) => Object.fromEntries(row.map((value, k) => [fields[k], value])));
  for (const one of all) one.words = `${one.task} ${one.seed} ${one.instruction} ${one.id} ${one.suite}`.toLowerCase();
  for (const id of ["device", "outcome", "source"]) {
    const values = [...new Set(all.map((one) => one[id]))].sort();
    $(id).replaceChildren(node("option", { value: "", textContent: `any ${id}` }),
      ...values.map((value) => node("option", { value, textContent: spoken(value) })));
  }
  for (const id of ["words", "device", "outcome", "source", "order"]) $(id).addEventListener("input", filter);
  $("list").addEventListener("scroll", list);
  addEventListener("resize", list);
  filter();
  await go(0);
}
start();
