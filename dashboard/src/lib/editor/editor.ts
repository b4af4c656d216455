import { defaultKeymap, history, historyKeymap } from '@codemirror/commands';
import { json, jsonParseLinter } from '@codemirror/lang-json';
import { bracketMatching, HighlightStyle, indentOnInput, syntaxHighlighting } from '@codemirror/language';
import { linter, lintGutter, type Diagnostic } from '@codemirror/lint';
import { EditorState } from '@codemirror/state';
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from '@codemirror/view';
import { tags } from '@lezer/highlight';
import { parseJson } from '$lib/json/exact';
import { locate } from '$lib/json/locate';
import { parsePath } from '$lib/json/pointer';

export interface Problem {
  path: string;
  message: string;
}

/** Asks the server about a document; the editor has no second opinion. */
export type Validate = (value: unknown) => Promise<{ errors: Problem[]; warnings: Problem[] }>;

export interface EditorOptions {
  host: HTMLElement;
  value: string;
  label: string;
  readOnly: boolean;
  onChange: (value: string) => void;
  validate: Validate | null;
}

const colors = HighlightStyle.define([
  { tag: tags.propertyName, color: 'var(--json-key)' },
  { tag: tags.string, color: 'var(--json-string)' },
  { tag: tags.number, color: 'var(--json-number)' },
  { tag: [tags.bool, tags.null], color: 'var(--json-literal)' },
  { tag: tags.invalid, color: 'var(--bad)' },
]);

const theme = EditorView.theme({
  '&': { color: 'var(--text)', backgroundColor: 'var(--bg-sunken)', fontSize: '12.5px', borderRadius: '6px', height: '100%' },
  '&.cm-focused': { outline: '2px solid var(--accent)', outlineOffset: '-1px' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '20px', overflow: 'auto' },
  '.cm-gutters': { color: 'var(--text-faint)', backgroundColor: 'transparent', border: '0' },
  '.cm-activeLine': { backgroundColor: 'transparent' },
  '&.cm-focused .cm-activeLine': { backgroundColor: 'var(--bg-hover)' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '.cm-content': { caretColor: 'var(--text)' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': { backgroundColor: 'var(--bg-selected)' },
  '.cm-matchingBracket': { backgroundColor: 'var(--accent-soft)', outline: 'none' },
  '.cm-tooltip': { color: 'var(--text)', backgroundColor: 'var(--bg-raised)', border: '1px solid var(--line-strong)', borderRadius: '6px' },
  '.cm-diagnostic': { fontFamily: 'var(--font)', fontSize: '12.5px' },
});

function place(text: string, problem: Problem): { from: number; to: number } {
  const found = locate(text, parsePath(problem.path) ?? []);
  return found ? { from: found[0], to: Math.min(found[1], found[0] + 200) } : { from: 0, to: 0 };
}

async function serverDiagnostics(view: EditorView, validate: Validate): Promise<Diagnostic[]> {
  const text = view.state.doc.toString();
  try {
    const { errors, warnings } = await validate(parseJson(text));
    return [
      ...errors.map((problem): Diagnostic => ({ ...place(text, problem), severity: 'error', message: `${problem.path}: ${problem.message}` })),
      ...warnings.map((problem): Diagnostic => ({ ...place(text, problem), severity: 'warning', message: `${problem.path}: ${problem.message}` })),
    ];
  } catch {
    return [];
  }
}

/** Creates an editor inside a shadow root, where its styles are adopted style sheets instead of inline ones. */
export function createEditor(options: EditorOptions): { setValue: (value: string) => void; destroy: () => void } {
  const root = options.host.shadowRoot ?? options.host.attachShadow({ mode: 'open', delegatesFocus: true });
  const parse = jsonParseLinter();
  const state = EditorState.create({
    doc: options.value,
    extensions: [
      lineNumbers(),
      history(),
      drawSelection(),
      indentOnInput(),
      bracketMatching(),
      highlightActiveLine(),
      json(),
      syntaxHighlighting(colors),
      theme,
      lintGutter(),
      linter((view) => (view.state.doc.length === 0 ? [] : parse(view))),
      ...(options.validate ? [linter((view) => serverDiagnostics(view, options.validate as Validate), { delay: 600 })] : []),
      keymap.of([...defaultKeymap, ...historyKeymap]),
      EditorView.contentAttributes.of({ 'aria-label': options.label, tabindex: '0' }),
      EditorState.readOnly.of(options.readOnly),
      EditorView.updateListener.of((update) => {
        if (update.docChanged) options.onChange(update.state.doc.toString());
      }),
    ],
  });
  const view = new EditorView({ state, root, parent: root });
  return {
    setValue: (value) => {
      if (value !== view.state.doc.toString()) view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: value } });
    },
    destroy: () => view.destroy(),
  };
}
