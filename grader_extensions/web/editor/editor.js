// Turns the text areas of the form to submit with into editors, and fills in a problem's starter file. The form works without it.
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { cpp } from "@codemirror/lang-cpp";
import { python } from "@codemirror/lang-python";
import { bracketMatching, HighlightStyle, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { Compartment, EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";

const ENDINGS = { cuda: ".cu", torch_extension: "_torch.cu", python: ".py" };

// The page's own colours: custom properties reach into a shadow root.
const theme = EditorView.theme({
  "&": { backgroundColor: "var(--back)", color: "var(--text)", border: "1px solid var(--dim)", borderRadius: "0.3rem" },
  "&.cm-focused": { outline: "3px solid var(--link)", outlineOffset: "2px" },
  ".cm-scroller": { font: "0.85rem/1.4 ui-monospace, monospace", minHeight: "16rem", maxHeight: "40rem" },
  ".cm-gutters": { backgroundColor: "var(--soft)", color: "var(--dim)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine": { backgroundColor: "transparent", boxShadow: "inset 0 0 0 1px var(--line)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { background: "var(--line)" },
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "var(--note)", outline: "1px solid var(--note-line)" },
});
const colours = HighlightStyle.define([
  { tag: [tags.comment], color: "var(--dim)", fontStyle: "italic" },
  { tag: [tags.keyword, tags.modifier, tags.controlKeyword], color: "var(--mark-0)" },
  { tag: [tags.processingInstruction, tags.meta], color: "var(--mark-2)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--mark-3)" },
  { tag: [tags.number, tags.bool], color: "var(--mark-1)" },
  { tag: [tags.function(tags.variableName), tags.typeName], color: "var(--mark-4)" },
]);

// In a shadow root, whose styles need no exception from the page's policy.
function edit(area, path) {
  const host = document.createElement("div"), language = new Compartment();
  area.after(host);
  area.hidden = true;
  document.getElementById("keys").hidden = false;
  const isPython = () => path.value.endsWith(".py") || document.getElementById("language").value === "python";
  const syntax = () => (isPython() ? python() : cpp());
  const view = new EditorView({
    root: host.attachShadow({ mode: "open" }),
    state: EditorState.create({
      doc: area.value,
      extensions: [
        lineNumbers(), history(), drawSelection(), highlightActiveLine(), indentOnInput(), bracketMatching(), indentUnit.of("    "),
        EditorState.tabSize.of(4), keymap.of([...defaultKeymap, ...historyKeymap, indentWithTab]),
        language.of(syntax()), syntaxHighlighting(colours), theme,
        EditorView.contentAttributes.of({
          "aria-label": "Content", tabindex: "0", spellcheck: "false", "aria-invalid": area.getAttribute("aria-invalid") ?? "false",
        }),
      ],
    }),
  });
  host.shadowRoot.append(view.dom);
  for (const label of document.querySelectorAll(`label[for="${area.id}"]`)) label.addEventListener("click", () => view.focus());
  for (const field of [path, document.getElementById("language")])
    field.addEventListener("change", () => view.dispatch({ effects: language.reconfigure(syntax()) }));
  return {
    path, area,
    get text() { return view.state.doc.toString(); },
    fill(name, text) {
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
      path.value = name;
      path.dispatchEvent(new Event("change"));
    },
    save() { area.value = this.text; },
  };
}

// Only where nothing was written: what was typed is never replaced, and a starter file is not sent along with chosen files.
function offerStarter(editor, form) {
  let name = "", text = "";
  const untouched = () => editor.text === text && editor.path.value === name;
  async function fill() {
    if (!untouched()) return;
    const option = form.elements.problem.selectedOptions[0], languages = (option.dataset.languages || "").split(" ");
    const language = form.elements.language.value || languages.find((one) => one in ENDINGS);
    let next = "", content = "";
    if (language in ENDINGS && languages.includes(language) && !form.elements.files.files.length) {
      next = `${option.value}${ENDINGS[language]}`;
      const answer = await fetch(`/problems/${encodeURIComponent(option.value)}/${encodeURIComponent(next)}`);
      content = answer.ok ? await answer.text() : "";
    }
    if (!untouched()) return;
    [name, text] = content ? [next, content] : ["", ""];
    editor.fill(name, text);
  }
  for (const field of [form.elements.problem, form.elements.language, form.elements.files]) field.addEventListener("change", fill);
  fill();
}

const areas = [...document.querySelectorAll("textarea[name=content]")];
const editors = areas.map((area) => edit(area, document.getElementById(area.id.replace("content", "path"))));
const form = areas[0].form, save = () => editors.forEach((editor) => editor.save());
form.addEventListener("submit", save);
addEventListener("pagehide", save);
if (editors.length === 1) offerStarter(editors[0], form);
