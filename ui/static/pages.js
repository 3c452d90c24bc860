// What the pages do by themselves: marks in the editor, drafts, dialogs, keys. All else is asked of the service by htmx.
import "./editor.js";

const form = document.querySelector("form[data-draft]");
const source = document.querySelector("code-editor#source");

// --- Marks: an answer of the checks carries them.
function mark() {
  const found = document.querySelector("#report [data-marks]");
  if (found && source) source.marks = JSON.parse(found.dataset.marks);
}

// --- Drafts: what is typed stays in this browser until it is kept, by grader and version.
const draftKey = form && `draft:${form.dataset.draft}`;

function restore() {
  const draft = form && !source.hasAttribute("readonly") && localStorage.getItem(draftKey);
  if (!draft || draft === source.value) return;
  source.value = draft;
  document.querySelector("#draft").hidden = false;
}

function forget() {
  localStorage.removeItem(draftKey);
  document.querySelector("#draft").hidden = true;
}

document.addEventListener("edited", (event) => {
  if (event.target !== source || !form) return;
  if (source.value === source.textContent) localStorage.removeItem(draftKey);
  else localStorage.setItem(draftKey, source.value);
});
document.querySelector("#discard")?.addEventListener("click", () => {
  source.value = source.textContent;
  forget();
});

// The service has kept the source as a version.
document.addEventListener("kept", (event) => {
  forget();
  form.elements.version.value = event.detail.version;
  form.dataset.draft = event.detail.draft;
});

// --- Dialogs: one is open while it has content.
const dialog = document.querySelector("dialog");

document.addEventListener("htmx:after:swap", () => {
  mark();
  if (!dialog) return;
  if (dialog.childElementCount && !dialog.open) dialog.showModal();
  if (!dialog.childElementCount && dialog.open) dialog.close();
});
dialog?.addEventListener("close", () => dialog.replaceChildren());
document.addEventListener("signed-in", () => {
  dialog.close();
  document.dispatchEvent(new CustomEvent("again", { bubbles: true }));
});
document.addEventListener("click", (event) => {
  if (event.target.closest("[data-close]")) dialog.close();
  const line = event.target.closest("[data-line]");
  if (line && source) source.go(Number(line.dataset.line));
  const copied = event.target.closest("[data-copy]");
  if (copied) navigator.clipboard?.writeText(document.querySelector(copied.dataset.copy).textContent);
});

// --- No answer at all: said in words, and nothing that was typed is lost.
document.addEventListener("htmx:error", (event) => {
  const notice = document.querySelector("#notice");
  if (notice && !event.detail?.ctx?.response) {
    notice.className = "panel notice fault";
    notice.textContent = "The service does not answer. What you typed stays here; it is tried again with your next change.";
  }
});
document.addEventListener("htmx:before:response", () => {
  const notice = document.querySelector("#notice");
  if (notice) notice.textContent = "";
});

// --- A slider says where it stands.
function say(slider) {
  document.querySelector(slider.dataset.said).textContent = Number(slider.value).toPrecision(4);
}
document.querySelectorAll("input[data-said]").forEach((slider) => {
  say(slider);
  slider.addEventListener("input", () => say(slider));
});

// --- Keys: j and k walk through the rows of a table, Enter opens one.
document.addEventListener("keydown", (event) => {
  if (event.target.closest("input, textarea, select, code-editor, dialog") || event.ctrlKey || event.metaKey || event.altKey) return;
  const rows = [...document.querySelectorAll("tr[data-row]")];
  if (!rows.length || !["j", "k", "Enter"].includes(event.key)) return;
  const now = rows.findIndex((row) => row.getAttribute("aria-selected") === "true");
  if (event.key === "Enter") {
    if (now >= 0 && !event.target.closest("a, button")) rows[now].querySelector("a, button").click();
    return;
  }
  const next = rows[Math.max(0, Math.min(rows.length - 1, now + (event.key === "j" ? 1 : -1)))];
  rows[now]?.setAttribute("aria-selected", "false");
  next.setAttribute("aria-selected", "true");
  next.scrollIntoView({ block: "nearest" });
});

restore();
// Only now the editors are forms' elements: what htmx sent at its own start would lack them.
document.addEventListener("DOMContentLoaded", () => setTimeout(() => document.dispatchEvent(new CustomEvent("ready"))));
