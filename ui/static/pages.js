// The script of the pages: marks in the editor, drafts, dialogs, keys. htmx requests everything else from the service.
const form = document.querySelector("form[data-draft]");
const source = document.querySelector("code-editor#source");

// --- Marks: the response of a check contains them.
function mark() {
  const found = document.querySelector("#report [data-marks]");
  if (form && found?.dataset.made !== undefined) source.show(found.dataset.made); // the source that the settings make
  if (form) source.marks = found ? JSON.parse(found.dataset.marks) : [];
}

// --- Settings of a kind: a change in a field changes the JSON, and a change in the JSON changes the fields.
const config = document.querySelector("code-editor#config");
const fields = [...document.querySelectorAll("[data-setting]")];
let isFilling = false;

function settings() {
  try {
    const found = JSON.parse(config.value);
    return found && typeof found === "object" && !Array.isArray(found) ? found : null;
  } catch {
    return null;
  }
}

function fill() {
  const found = settings();
  if (!found || isFilling) return;
  for (const field of fields) {
    const value = found[field.dataset.setting] ?? "";
    const text = typeof value === "string" ? value : JSON.stringify(value, null, 1);
    if (field.value !== text || !field.validity.valid) field.value = text;
    field.setCustomValidity("");
  }
  refuse("");
}

function valueOf(field) {
  const text = field.value.trim();
  if (text === "") return undefined;
  if (field.dataset.form === "number") return Number(text);
  if (field.dataset.form === "flag") return text === "true";
  if (field.dataset.form === "json") return JSON.parse(text);
  return field.dataset.form === "mixed" && /^[[{]|^(true|false|\d+)$/.test(text) ? jsonOr(field.value) : field.value;
}

function jsonOr(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text; // for example a criterion that begins with "[Safety]"
  }
}

fields.forEach((field) => {
  field.addEventListener("change", (event) => event.stopPropagation()); // the editor sends an event
  field.addEventListener("input", () => {
    refuse("");
    const found = config.value.trim() ? settings() : {};
    try {
      if (!found) throw new Error("its value cannot be added to the settings as JSON, which are not an object");
      found[field.dataset.setting] = valueOf(field);
      field.setCustomValidity("");
    } catch (error) {
      field.setCustomValidity(error instanceof SyntaxError ? `not valid JSON: ${error.message}` : error.message);
      return;
    }
    isFilling = true;
    config.value = JSON.stringify(found, null, 2);
    isFilling = false;
  });
});

// Save and Test are refused while the text of a field is not a setting: the JSON still has the value before it.
function refuse(why) {
  document.querySelector("#refused").textContent = why;
}

document.addEventListener("htmx:config:request", (event) => {
  if (!["keep", "try"].includes(event.detail.ctx.sourceElement.id)) return;
  document.querySelector("#kept").textContent = ""; // of an earlier save: this one may fail
  const field = fields.find((one) => !one.validity.valid);
  if (!field) return;
  event.preventDefault();
  refuse(`Nothing was saved or tested. Correct the field ${field.dataset.setting}: ${field.validationMessage}`);
  field.focus();
});

// --- A test is of the text as it is: the check that a change before it asked for, after a pause, would replace its report.
let isTested = false;
for (const name of ["edited", "change", "again"]) document.addEventListener(name, () => { isTested = false; }, true);
document.addEventListener("htmx:config:request", (event) => {
  const { id } = event.detail.ctx.sourceElement;
  if (id === "report" && isTested) event.preventDefault();
  if (id === "try" && !event.defaultPrevented) isTested = true;
});
// So is the report of a save that failed.
document.addEventListener("htmx:before:response", (event) => {
  const { sourceElement, response } = event.detail.ctx;
  const isReport = sourceElement.id === "keep" && response.headers.get("HX-Retarget") === "#report";
  if (!isReport || written.value !== sent) return;
  isTested = true;
  document.querySelector("#report").dispatchEvent(new Event("htmx:abort"));
});

// --- Drafts: this browser stores typed text until the service saves it, by grader and version.
const written = form && (document.querySelector("code-editor#config") || source);
const [graderKey, number] = form?.dataset.draft.split("@") ?? []; // a grader that is not saved yet has no number
let kept = form && { text: written.value, draft: form.dataset.draft, version: number ?? "" }; // what the service has
let sent; // the text that is being saved
let isWantedAgain = false; // to save again, because the user asked during a save
const draftKey = () => `draft:${form.dataset.draft}`;

// What is typed is a draft of this version. If the service has a newer one, saving shows the differences.
function follow({ draft, version }) {
  form.dataset.draft = draft;
  form.elements.version.value = version;
}

function note() {
  if (written.value === kept.text) localStorage.removeItem(draftKey());
  else localStorage.setItem(draftKey(), written.value);
}

// Drafts of older versions, newest first. A page whose address names a version shows no draft of another one.
function older() {
  if (new URLSearchParams(location.search).has("version")) return [];
  return Object.keys(localStorage).map((key) => key.split("@"))
    .filter(([start, version]) => start === `draft:${graderKey}` && Number(version) < Number(number))
    .map(([, version]) => ({ draft: `${graderKey}@${version}`, version: Number(version) }))
    .sort((one, other) => other.version - one.version);
}

function restore() {
  if (!form || written.hasAttribute("readonly")) return;
  for (const one of [kept, ...older()]) {
    const draft = localStorage.getItem(`draft:${one.draft}`);
    if (draft && draft !== kept.text) return show(draft, one);
    localStorage.removeItem(`draft:${one.draft}`); // it was saved, but its response was lost
  }
}

function show(draft, of) {
  follow(of);
  written.value = draft;
  document.querySelector("#draft").hidden = false;
  if (of !== kept) document.querySelector("#draft span").textContent =
    `It began with version ${of.version}, and version ${kept.version} was saved since: saving the draft first shows the differences.`;
}

document.addEventListener("edited", (event) => {
  if (form && event.target === written) note();
  if (event.target === config) fill();
});

document.addEventListener("keep", () => { isWantedAgain = sent !== undefined; }, true);
document.addEventListener("htmx:finally:request", (event) => {
  if (event.detail.ctx.sourceElement.id !== "keep") return;
  sent = undefined;
  if (isWantedAgain && !dialog.open) setTimeout(() => form.dispatchEvent(new CustomEvent("keep")));
  isWantedAgain = false;
});

// --- The samples, the key and the limits are a draft too. Those of a version that cannot be changed are none.
const inputs = form && !written.hasAttribute("readonly")
  ? [...form.querySelectorAll("[name=samples], [name=key], [name=isolation], [name=timeout_s], [name=memory_mb], [name=environment]")]
  : [...document.querySelectorAll("code-editor#samples")];
const inputsKey = form && `inputs:${graderKey}${location.search}`;
const inputValues = () => Object.fromEntries(inputs.map((input) => [input.getAttribute("name"), input.value]));
let keptInputs = form && inputValues();
let sentInputs;
let began = form?.elements.stored_samples.value; // the digest of the samples that were stored when the draft began

function noteInputs() {
  const changed = Object.entries(inputValues()).filter(([name, value]) => value !== keptInputs[name]);
  if (changed.length) localStorage.setItem(inputsKey, JSON.stringify({ ...Object.fromEntries(changed), began }));
  else localStorage.removeItem(inputsKey);
}

function writeInputs(values) {
  for (const input of inputs) {
    const value = values[input.getAttribute("name")];
    if (value !== undefined && value !== input.value) input.value = value;
  }
}

function restoreInputs() {
  const draft = form && localStorage.getItem(inputsKey);
  if (!draft) return;
  const values = JSON.parse(draft);
  writeInputs(values);
  if (values.samples !== undefined && values.samples !== keptInputs.samples && values.began !== began) {
    began = values.began;
    document.querySelector("#draft span").textContent += " Other samples were stored since it began: saving the draft replaces them.";
  }
  noteInputs(); // what was saved, but not answered, is no draft
  document.querySelector("#draft").hidden &&= !localStorage.getItem(inputsKey);
}

for (const name of ["edited", "input", "change"]) document.addEventListener(name, (event) => {
  if (inputs.includes(event.target)) noteInputs();
});

window.addEventListener("storage", (event) => { // of another tab
  if (!form || event.newValue === null || ![draftKey(), inputsKey].includes(event.key)) return;
  document.querySelector("#draft").hidden = false;
  document.querySelector("#draft span").textContent =
    "Another tab edits this grader too, and the browser keeps only the text that was typed last: save it in one of them.";
});

// --- Samples that are not changed here are not saved: another client may have stored others since.
const samples = document.querySelector("code-editor#samples");
let storedSamples = number && !new URLSearchParams(location.search).has("sample") ? samples.value : undefined;
document.addEventListener("htmx:config:request", (event) => {
  const { sourceElement, request } = event.detail.ctx;
  if (sourceElement.id === "keep" && samples.value === storedSamples) request.body.delete("samples");
});

// --- The service saves what was sent as a version. What is typed since is a draft of that version.
document.addEventListener("htmx:before:request", (event) => {
  if (event.detail.ctx.sourceElement.id !== "keep") return;
  sent = written.value;
  sentInputs = inputValues();
});
document.addEventListener("kept", (event) => {
  localStorage.removeItem(draftKey());
  document.querySelector("#draft").hidden = true;
  kept = { text: sent, draft: event.detail.draft, version: event.detail.version };
  follow(kept);
  if (form.elements.grader.value) note();
  began = event.detail.samples ?? began;
  keptInputs = form.elements.are_long ? { ...sentInputs, samples: keptInputs.samples } : sentInputs;
  noteInputs();
  storedSamples = sentInputs.samples;
  if (event.detail.samples) form.elements.stored_samples.value = event.detail.samples;
});
document.querySelector("#discard")?.addEventListener("click", () => {
  written.value = kept.text;
  follow(kept);
  document.querySelector("#draft").hidden = true;
  writeInputs(keptInputs);
  began = form.elements.stored_samples.value;
  noteInputs();
});

// --- Dialogs: the dialog is open while it has content.
const dialog = document.querySelector("dialog");

document.addEventListener("htmx:after:swap", () => {
  mark();
  if (!dialog) return;
  if (dialog.childElementCount && !dialog.open) dialog.showModal();
  if (!dialog.childElementCount && dialog.open) dialog.close();
});
// While the dialog is open, skip updates of progress, which may reload the page, and do not replace a form to sign in.
document.addEventListener("htmx:before:response", (event) => {
  const { sourceElement, response } = event.detail.ctx;
  const isAsked = response.status === 401 && dialog.querySelector("#key") && !dialog.contains(sourceElement);
  if (dialog.open && (isAsked || sourceElement.id === "progress")) event.preventDefault();
});
// At the end of a batch, its page is loaded anew. What was typed for the next one stays.
const again = document.querySelector("#again");
document.addEventListener("htmx:before:response", (event) => {
  if (again?.value && event.detail.ctx.response.headers.get("HX-Refresh")) sessionStorage.setItem(location.pathname, again.value);
});
if (again && sessionStorage.getItem(location.pathname)) {
  again.value = sessionStorage.getItem(location.pathname);
  again.focus();
  sessionStorage.removeItem(location.pathname);
}
dialog?.addEventListener("close", () => {
  if (notice) place(false);
  dialog.replaceChildren();
  // A row that is still being loaded would open the dialog again.
  document.querySelectorAll("a[hx-target=dialog]").forEach((link) => link.dispatchEvent(new Event("htmx:abort")));
});
document.addEventListener("signed-in", () => {
  dialog.close();
  document.dispatchEvent(new CustomEvent("again", { bubbles: true }));
});
document.addEventListener("click", (event) => {
  const over = event.target.closest("[data-over]");
  if (event.target.closest("[data-close]")) dialog.close();
  if (over) {
    form.elements.version.value = over.dataset.over;
    form.dispatchEvent(new CustomEvent("keep"));
  }
  const line = event.target.closest("[data-line]");
  if (line && source) source.go(Number(line.dataset.line));
});

// --- No response: show a notice. Typed text stays.
const notice = document.querySelector("#notice");
let failed; // the element whose request failed, which the notice is about

// An open dialog hides the notice of the page, so it has it then.
function place(isInDialog) {
  (isInDialog && dialog.open ? dialog : document.querySelector("main")).prepend(notice);
}

document.addEventListener("htmx:error", (event) => {
  const ctx = event.detail?.ctx;
  if (!notice || ctx?.response) return;
  failed = ctx?.sourceElement;
  place(true);
  notice.className = "panel notice fault";
  notice.textContent = "The service does not answer. What you typed stays here: try again.";
});
// The next response clears the notice, except that of a check or a poll, which nobody asked for: it may follow at once.
document.addEventListener("htmx:before:response", (event) => {
  const { sourceElement, response } = event.detail.ctx;
  const isGood = response.status < 400;
  const isOther = failed && failed !== sourceElement && ["report", "progress"].includes(sourceElement.id);
  if (!notice || (isOther && isGood)) return;
  failed = isGood ? undefined : sourceElement;
  place(response.headers.get("HX-Retarget") === "#notice");
  notice.textContent = "";
});

// --- Forms that change something are sent only once until the page is shown again, even if clicked several times.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post" || form.hasAttribute("hx-post")) return;
  if (form.dataset.sent) event.preventDefault();
  form.dataset.sent = "yes";
});
window.addEventListener("pageshow", () => {
  document.querySelectorAll("form[data-sent]").forEach((form) => delete form.dataset.sent);
});

// --- The value of a slider is shown beside it. What is sent has as many digits as are shown.
function say(slider) {
  const digits = 3 - Math.floor(Math.log10(slider.max - slider.min));
  slider.value = Number(slider.value).toFixed(Math.min(Math.max(digits, 0), 20));
  document.querySelector(slider.dataset.said).textContent = slider.value;
}
document.querySelectorAll("input[data-said]").forEach((slider) => {
  say(slider);
  slider.addEventListener("input", () => say(slider));
});

// --- Keys: Ctrl-S and Ctrl-Enter work outside the editor too.
document.addEventListener("keydown", (event) => {
  const name = { s: "keep", Enter: "try" }[event.key];
  if (!form || !name || dialog.open || event.defaultPrevented || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  form.dispatchEvent(new CustomEvent(name));
});

// --- Keys: j and k select a row of a table, Enter opens it. While a row is open, j and k open the next one.
function select(row) {
  document.querySelector("tr[data-row][aria-selected=true]")?.setAttribute("aria-selected", "false");
  row.setAttribute("aria-selected", "true");
  row.scrollIntoView({ block: "nearest" });
}

// htmx starts by a timer, later than this script. Enter before that would open the address of the row instead of the
// dialog. Elements that are processed now are left out then.
htmx.process(document.body);
document.addEventListener("keydown", (event) => {
  if (event.target.closest("input, textarea, select, code-editor") || event.ctrlKey || event.metaKey || event.altKey) return;
  const rows = [...document.querySelectorAll("tr[data-row]")];
  if (!rows.length || !["j", "k", "Enter"].includes(event.key)) return;
  const now = rows.findIndex((row) => row.getAttribute("aria-selected") === "true");
  if (event.key === "Enter") {
    if (now >= 0 && !event.target.closest("a, button, summary, dialog")) rows[now].querySelector("a, button").click();
    return;
  }
  const next = rows[Math.max(0, Math.min(rows.length - 1, now + (event.key === "j" ? 1 : -1)))];
  select(next);
  if (dialog.open) next.querySelector("a, button").click();
});
document.addEventListener("click", (event) => {
  const row = event.target.closest("tr[data-row]");
  if (row) select(row);
});

restore();
restoreInputs();
if (config) fill();
const line = location.hash.match(/^#line-(\d{1,6})$/);
if (line && source) source.go(Number(line[1]));
// The editors are form elements only from now on: a request that htmx sent when it started would lack them.
document.addEventListener("DOMContentLoaded", () => setTimeout(() => document.dispatchEvent(new CustomEvent("ready"))));

// --- Commands and ids can be copied. Browsers have a clipboard under https and on localhost alone.
for (const element of navigator.clipboard ? document.querySelectorAll("[data-copy]") : []) {
  const button = document.createElement("button");
  Object.assign(button, { type: "button", className: "copy", textContent: "copy" });
  button.addEventListener("click", () => navigator.clipboard.writeText(element.textContent).then(
    () => { button.textContent = "copied"; },
    () => { button.textContent = "not allowed by the browser"; },
  ));
  element.after(button);
}
