// Asks for the sections again and again, and replaces those whose content has changed. Ages count here.
"use strict";

const every = () => 1000 * Number(document.body.dataset.every);
const lost = (text) => {
  const place = document.getElementById("lost");
  place.hidden = !text;
  if (place.textContent !== text) place.textContent = text;
};

function span(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 90) return `${whole} s`;
  if (whole < 5400) return `${Math.floor(whole / 60)} min`;
  if (whole < 172800) return `${Math.floor(whole / 3600)} h ${String(Math.floor((whole % 3600) / 60)).padStart(2, "0")} min`;
  return `${Math.floor(whole / 86400)} d`;
}

function ages() {
  for (const time of document.querySelectorAll("time[data-age]")) {
    time.dataset.clock ??= time.textContent;
    const text = `${time.dataset.clock} (${span((Date.now() - Date.parse(time.dateTime)) / 1000)} ago)`;
    if (time.textContent !== text) time.textContent = text;
  }
  const top = document.getElementById("top");
  const age = top.dataset.at ? Date.now() - Date.parse(top.dataset.at) : 0;
  top.classList.toggle("old", age > 60000 + 3 * every());
}

function copies() {
  for (const code of document.querySelectorAll("code.command:not([data-copy])")) {
    code.dataset.copy = "";
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(code);
        button.textContent = "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    code.after(" ", button);
  }
}

function replace(before, after) {
  const open = new Map([...before.querySelectorAll("details[data-key]")].map((one) => [one.dataset.key, one.open]));
  const scrolled = [...before.querySelectorAll(".wide")].map((one) => one.scrollLeft);
  const made = document.importNode(after, true);
  for (const one of made.querySelectorAll("details[data-key]")) one.open = open.get(one.dataset.key) ?? one.open;
  before.replaceWith(made);
  made.querySelectorAll(".wide").forEach((one, index) => { one.scrollLeft = scrolled[index] ?? 0; });
}

function take(text) {
  const fresh = new DOMParser().parseFromString(text, "text/html");
  document.title = fresh.title;
  const icon = document.querySelector("link[rel=icon]");
  const fresh_icon = fresh.querySelector("link[rel=icon]").getAttribute("href");
  if (icon.getAttribute("href") !== fresh_icon) icon.setAttribute("href", fresh_icon);
  const top = document.getElementById("top"), next = fresh.getElementById("top");
  top.className = next.className;
  top.dataset.at = next.dataset.at;
  for (const one of fresh.querySelectorAll("[data-digest]")) {
    const before = document.getElementById(one.id);
    if (before.dataset.digest !== one.dataset.digest) replace(before, one);
  }
}

let last = Date.now();
async function turn() {
  try {
    const answer = await fetch("live", { cache: "no-store", signal: AbortSignal.timeout(20000) });
    if (!answer.ok) throw new Error(`${answer.status}`);
    take(await answer.text());
    last = Date.now();
    lost("");
  } catch {
    lost(`✕ The command that serves this page has ended or does not answer for ${span((Date.now() - last) / 1000)}. `
      + "What you see is the last state. Run hyperpod-ray status again.");
  }
  ages();
  copies();
  // before the first answer is there, and after an error, soon
  setTimeout(turn, document.getElementById("top").dataset.at ? Math.min(5000, every()) : 1000);
}

// nodes of a large cluster: asked for when somebody looks for one
let nodes = null, nodes_t = 0;
async function known() {
  if (!nodes || Date.now() - nodes_t > Math.max(5000, every())) {
    const answer = await fetch("nodes.json", { cache: "no-store", signal: AbortSignal.timeout(20000) });
    if (!answer.ok) throw new Error(`${answer.status}`);
    nodes = await answer.json();
    nodes_t = Date.now();
  }
  return nodes;
}

function card(node) {
  const article = document.createElement("article");
  const line = (tag, text) => { const made = document.createElement(tag); made.textContent = text; article.append(made); };
  line("code", node.id);
  const state = document.createElement("p"), mark = document.createElement("span");
  mark.className = `state ${node.tone}`;
  mark.textContent = `${node.sign} ${node.state}`;
  state.append(mark);
  article.append(state);
  line("p", [node.group, node.network, node.launched && `launched ${node.launched}`].filter(Boolean).join(", "));
  if (node.fault) line("p", node.fault);
  if (node.pods.length) line("p", `pods: ${node.pods.join(", ")}`);
  for (const event of node.history) line("p", event);
  return article;
}

const SHOWN = 20;
async function look(chosen) {
  const place = document.getElementById("node-details");
  if (!place) return;
  try {
    const { nodes: all, step } = await known();
    const fitting = all.filter((node) => chosen(node, step));
    place.replaceChildren(...fitting.slice(0, SHOWN).map(card));
    const rest = document.createElement("p");
    rest.textContent = fitting.length > SHOWN ? `${fitting.length - SHOWN} more` : fitting.length ? "" : "no such node";
    place.append(rest);
  } catch {
    place.textContent = "The nodes cannot be read now.";
  }
}

document.addEventListener("click", (event) => {
  const map = event.target.closest?.("#node-map");
  if (!map) return;
  const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(map.getScreenCTM().inverse());
  look((node, step) => at.x >= node.x && at.x < node.x + step && at.y >= node.y && at.y < node.y + step);
});

document.addEventListener("input", (event) => {
  if (event.target.id !== "node-find") return;
  const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) { document.getElementById("node-details").replaceChildren(); return; }
  look((node) => {
    const text = `${node.id} ${node.group} ${node.network} ${node.state} ${node.fault} ${node.pods.join(" ")}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
});

ages();
copies();
setInterval(ages, 1000);
setTimeout(turn, 1000);
