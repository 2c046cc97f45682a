// The shared look: theme colours and the small pieces that more than one app draws.
"use strict";

const THEMES = [
  { page: "#f8fafc", card: "#ffffff", edge: "#d5dde8", bar: "#dbe7f5" },
  { page: "#fffaf0", card: "#ffffff", edge: "#eadcc0", bar: "#f7e6c4" },
  { page: "#f3fbf4", card: "#ffffff", edge: "#cfe3d1", bar: "#d6efda" },
  { page: "#fbf5fd", card: "#ffffff", edge: "#e2d3e8", bar: "#ecdcf3" },
  { page: "#ffffff", card: "#f4f6f8", edge: "#dde2e7", bar: "#e6eaee" },
  { page: "#fdf4f3", card: "#ffffff", edge: "#ecd3cf", bar: "#f6dfdb" },
];
const CHOSEN = "#2563eb"; // ring around what is selected

// A card with its ring when chosen; hands back nothing, draws only.
function card(ui, theme, x, y, w, h, chosen) {
  ui.rect(x + 1, y + 1, w - 2, h - 2, chosen ? "#dbe8ff" : theme.card, 6, chosen ? CHOSEN : theme.edge, chosen ? 2.5 : 1);
}

// An icon alone as a target, centred in its box.
function button(ui, name, x, y, w, h, size, tap, more = {}) {
  ui.icon(name, x + (w - size) / 2, y + (h - size) / 2, size);
  ui.target(name, x, y, w, h, { tap, ...more });
}

// A small round number.
function bubble(ui, text, x, y, fill = "#b91c1c") {
  ui.rect(x - 6.5, y - 6.5, 13, 13, fill, 6.5);
  ui.word(text, x, y + 3.4, 9.5, { fill: "#ffffff", weight: "bold" });
}
