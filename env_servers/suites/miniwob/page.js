// `window.app` for a MiniWoB++ page: begins its episode from a seed, reads its reward, and says what is on it.
//
// State JSON: instruction · done, reward (the page's raw reward, 0 until it is done) · fields [[name, value]] of the
// form's controls · focus (name of the focused control) · dom (every node with what distinguishes it).
"use strict";

(() => {
  const NEVER_MS = 2 ** 40; // an episode's time limit
  const STEP_MS = 500; // what one step of a policy takes on the page's clock
  const APART = new Set(["reward-display", "sync-task-cover", "click-canvas", "attention-canvas"]); // not the task's
  const SILENT = new Set(["SCRIPT", "STYLE", "LINK", "NOSCRIPT"]);
  const CONTROLS = "a, button, input, textarea, select, option, label, summary, [onclick], [role=button], [tabindex]";

  const style = document.createElement("style");
  style.textContent = `${[...APART].map((id) => `#${id}`).join(", ")} { display: none !important; }
    html { overflow-x: hidden; }
    *, *::before, *::after { transition: none !important; animation: none !important; caret-color: transparent !important; }`;
  document.head.append(style);
  // A link or a form that would leave the page does not.
  addEventListener("submit", (event) => event.preventDefault());
  addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href]");
    if (link && !link.getAttribute("href").startsWith("#")) event.preventDefault();
  });

  const trimmed = (text) => text.replace(/\s+/g, " ").trim();
  const words = (element) => trimmed(element.innerText ?? element.textContent ?? "");
  const isText = (element) => element instanceof HTMLTextAreaElement || (element instanceof HTMLInputElement && !["button", "submit", "reset", "checkbox", "radio"].includes(element.type));

  function nameOf(element) {
    if (element instanceof HTMLInputElement && ["button", "submit", "reset"].includes(element.type)) return element.value || element.type;
    const labels = element.labels ? [...element.labels].map(words).filter(Boolean) : [];
    if (isText(element) || element instanceof HTMLInputElement || element instanceof HTMLSelectElement) {
      return labels[0] || element.id || element.placeholder || element.type;
    }
    return words(element) || element.getAttribute("aria-label") || element.title || element.id || element.tagName.toLowerCase();
  }

  function visible(element) {
    const box = element.getBoundingClientRect();
    const [x0, y0, x1, y1] = [Math.max(0, box.left), Math.max(0, box.top), Math.min(innerWidth, box.right), Math.min(innerHeight, box.bottom)];
    if (x1 - x0 < 1 || y1 - y0 < 1) return null;
    const top = document.elementFromPoint((x0 + x1) / 2, (y0 + y1) / 2);
    return top && (element.contains(top) || top.contains(element)) ? [x0, y0, x1, y1] : null;
  }

  // Pictures, those of style sheets too, are there before the page is looked at.
  const pictures = new Map(); // address -> Image, kept so that it stays loaded
  async function pictured() {
    const named = [...document.querySelectorAll("*")].flatMap((element) => {
      const drawn = [...getComputedStyle(element).backgroundImage.matchAll(/url\("([^"]+)"\)/g)].map(([, address]) => address);
      return element instanceof HTMLImageElement && element.src ? [...drawn, element.src] : drawn;
    });
    const fresh = [...new Set(named)].filter((address) => !pictures.has(address));
    for (const address of fresh) pictures.set(address, Object.assign(new Image(), { src: address }));
    await Promise.allSettled(fresh.map((address) => pictures.get(address).decode()));
  }

  const controls = () => [...document.body.querySelectorAll("input, textarea, select")];
  const held = (element) => (["checkbox", "radio"].includes(element.type) ? element.checked : element.value);

  // Ids that a library counts up over all episodes of a document are numbered anew from the first that is met.
  function renumbered(text) {
    const met = new Map();
    return text.replace(/\bui-id-\d+|\bdp\d{6,}/g, (id) => met.get(id) ?? met.set(id, `id-${met.size}`).get(id));
  }

  function tree(node) {
    if (node instanceof Text) return trimmed(node.data) ? [trimmed(node.data)] : [];
    if (!(node instanceof Element) || APART.has(node.id) || SILENT.has(node.tagName)) return [];
    const marks = [...node.attributes].map(({ name, value }) => `${name}=${value}`).filter((mark) => !mark.startsWith("data-wob") && mark !== "style=").sort();
    if (node.matches("input, textarea, select")) marks.push(`held=${held(node)}`);
    if (node.scrollTop || node.scrollLeft) marks.push(`scrolled=${node.scrollLeft},${node.scrollTop}`);
    if (node instanceof HTMLCanvasElement) {
      try {
        marks.push(`drawn=${node.toDataURL()}`);
      } catch {
        marks.push("drawn"); // a picture of another file on it: it can not be read back
      }
    }
    return [`<${node.tagName.toLowerCase()} ${marks.join(" ")}>`, ...[...node.childNodes].flatMap(tree), "</>"];
  }

  window.app = {
    async load({ seed, mode }) {
      core.endEpisode(0); // whatever was going on
      clock.restart();
      Math.seedrandom(seed);
      core.setDataMode(mode);
      core.EPISODE_MAX_TIME = NEVER_MS;
      WOB_EPISODE_ID = 0;
      for (const touched of document.querySelectorAll("[data-tampered]")) touched.removeAttribute("data-tampered");
      core.startEpisodeReal();
    },
    async settled() {
      await clock.advance(STEP_MS);
      await pictured();
    },
    wait: (seconds) => clock.advance(1000 * seconds),
    state() {
      const focused = document.activeElement;
      return {
        instruction: core.getUtterance(),
        done: WOB_DONE_GLOBAL,
        reward: WOB_DONE_GLOBAL ? WOB_RAW_REWARD_GLOBAL : 0,
        fields: controls().filter(visible).map((element) => [nameOf(element), held(element)]),
        focus: focused && focused.matches("input, textarea, select") ? nameOf(focused) : "",
        dom: renumbered(tree(document.body).join("\n")),
      };
    },
    elements() {
      const query = document.getElementById("query");
      const found = new Map(); // a part with the name of its whole is the whole
      for (const element of document.body.querySelectorAll("*")) {
        if (SILENT.has(element.tagName) || query?.contains(element)) continue;
        const leaf = !element.childElementCount && (words(element) || element instanceof SVGElement || getComputedStyle(element).cursor === "pointer");
        const box = (leaf || element.matches(CONTROLS)) && visible(element);
        if (!box) continue;
        const name = nameOf(element);
        if (![...found].some(([whole, known]) => known.name === name && whole.contains(element))) found.set(element, { name, box });
      }
      return [...found.values()];
    },
  };
})();
