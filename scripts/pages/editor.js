// The editor of sources and threads: a custom element around CodeMirror. It uses a shadow root, because the policy of
// the pages blocks the <style> element that CodeMirror writes into a document.
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { json } from "@codemirror/lang-json";
import { python, pythonLanguage } from "@codemirror/lang-python";
import { bracketMatching, defaultHighlightStyle, indentUnit, syntaxHighlighting, HighlightStyle } from "@codemirror/language";
import { lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { unifiedMergeView } from "@codemirror/merge";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { Compartment, EditorState } from "@codemirror/state";
import {
  drawSelection, EditorView, highlightActiveLine, highlightActiveLineGutter, highlightSpecialChars, keymap, lineNumbers,
} from "@codemirror/view";
import { tags } from "@lezer/highlight";

const THREAD = [
  ["completion()", "the last turn of the assistant, or None"],
  ["get_turns()", "(role, content) of each turn"],
  ["messages()", "the turns as dicts"],
  ["last_content()", "the content of the last turn"],
  ["metadata", "dict with what came beside the turns"],
  ["to_json()", "the thread as JSON"],
].map(([label, detail]) => ({ label, detail, type: label.endsWith(")") ? "method" : "property" }));
const IMPORTS = ["collections", "datetime", "difflib", "fractions", "functools", "gradebox", "itertools", "json", "math", "random",
  "re", "statistics", "string", "textwrap", "unicodedata"].map((label) => ({ label, type: "namespace" }));

function members(context) {
  const found = context.matchBefore(/\bthread\.\w*$/);
  return found && { from: found.from + "thread.".length, options: THREAD, validFor: /^\w*$/ };
}

function modules(context) {
  const found = context.matchBefore(/^(import|from)\s+\w*$/m);
  return found && { from: context.pos - found.text.match(/\w*$/)[0].length, options: IMPORTS, validFor: /^\w*$/ };
}

const darkColors = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword], color: "#c792ea" },
  { tag: [tags.string, tags.special(tags.string)], color: "#a5d6a7" },
  { tag: [tags.number, tags.bool, tags.null], color: "#f7a072" },
  { tag: tags.comment, color: "#8a94a6" },
  { tag: [tags.definition(tags.variableName), tags.function(tags.variableName)], color: "#82b1ff" },
]);
const look = EditorView.theme({
  "&": { height: "100%", fontSize: "13px", backgroundColor: "var(--field)", color: "var(--text)" },
  "&.cm-focused": { outline: "2px solid var(--focus)" },
  ".cm-scroller": { fontFamily: "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace", lineHeight: "1.5" },
  ".cm-gutters": { backgroundColor: "var(--panel)", color: "var(--quiet)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--active)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-tooltip": { backgroundColor: "var(--panel)", color: "var(--text)", border: "1px solid var(--line)", maxWidth: "36rem" },
  ".cm-tooltip.cm-tooltip-lint": { width: "max-content" },
  ".cm-panels": { backgroundColor: "var(--panel)", color: "var(--text)" },
});
const dark = matchMedia("(prefers-color-scheme: dark)");
const colors = () => syntaxHighlighting(dark.matches ? darkColors : defaultHighlightStyle);

// Characters that reverse what follows would make a source look like another one. By default four of them are not shown.
const special = highlightSpecialChars({ addSpecialChars: /[\u202a-\u202c\u2068]/ });

class CodeEditor extends HTMLElement {
  static formAssociated = true;

  constructor() {
    super();
    this.internals = this.attachInternals();
    this.attachShadow({ mode: "open" });
  }

  connectedCallback() {
    if (this.view) return;
    const isPython = this.getAttribute("language") === "python";
    const scheme = new Compartment();
    const text = this.textContent;
    const before = this.getAttribute("before");
    const own = keymap.of([
      { key: "Mod-s", preventDefault: true, run: () => this.tell("keep") },
      { key: "Mod-Enter", preventDefault: true, run: () => this.tell("try") },
      // Tab indents; Escape and then Tab leaves the editor, for users without a mouse.
      indentWithTab,
    ]);
    this.view = new EditorView({
      parent: this.shadowRoot,
      root: this.shadowRoot,
      doc: text,
      extensions: [
        lineNumbers(), history(), drawSelection(), bracketMatching(), closeBrackets(), highlightActiveLine(),
        highlightActiveLineGutter(), highlightSelectionMatches(), lintGutter(), indentUnit.of("    "), special,
        isPython ? [python(), pythonLanguage.data.of({ autocomplete: members }), pythonLanguage.data.of({ autocomplete: modules }),
          autocompletion()] : json(),
        scheme.of(colors()), look, own,
        keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...searchKeymap, ...historyKeymap, ...completionKeymap, ...lintKeymap]),
        EditorState.readOnly.of(this.hasAttribute("readonly")),
        EditorView.contentAttributes.of({ "aria-label": this.getAttribute("label") || "editor" }),
        EditorView.updateListener.of((update) => update.docChanged && this.changed()),
        before === null ? [] : unifiedMergeView({ original: before, mergeControls: false }),
        this.hasAttribute("wrap") ? EditorView.lineWrapping : [],
      ],
    });
    dark.addEventListener("change", () => this.view.dispatch({ effects: scheme.reconfigure(colors()) }));
    this.internals.setFormValue(this.value);
  }

  get name() { return this.getAttribute("name"); }

  get value() { return this.view ? this.view.state.doc.toString() : this.textContent; }

  set value(text) {
    this.view.dispatch({ changes: { from: 0, to: this.view.state.doc.length, insert: text } });
  }

  focus() { this.view.focus(); }

  // Each of `marks` is {line, column, severity, message}; a line after the end is the last.
  set marks(marks) {
    const { doc } = this.view.state;
    const found = marks.map(({ line, column, severity, message }) => {
      const at = doc.line(Math.max(1, Math.min(line, doc.lines)));
      const from = Math.min(at.to, at.from + (column || at.text.length - at.text.trimStart().length));
      return { from, to: at.to, severity, message };
    });
    this.view.dispatch(setDiagnostics(this.view.state, found));
  }

  // Shows a line, and puts the cursor there.
  go(line) {
    const at = this.view.state.doc.line(Math.max(1, Math.min(line, this.view.state.doc.lines)));
    this.view.dispatch({ selection: { anchor: at.from }, scrollIntoView: true });
    this.focus();
  }

  // Replaces the text without an event `edited`.
  show(text) {
    if (text === this.value) return;
    this.isShowing = true;
    this.value = text;
    this.isShowing = false;
  }

  changed() {
    this.internals.setFormValue(this.value);
    if (!this.isShowing) this.tell("edited");
  }

  tell(name) {
    this.dispatchEvent(new CustomEvent(name, { bubbles: true }));
    return true;
  }
}

customElements.define("code-editor", CodeEditor);
