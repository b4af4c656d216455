import { describe, expect, it } from 'vitest';
import type { JournalEvent } from '$lib/api/types';
import { fieldsOf, parametersOf, textsOf, withDefaults, type Field } from './parameters';
import { cliCommand, hasCliCommand, NO_OPTIONS, requestBody, type RunChoices } from './request';
import { commandLines, LINE_MAX } from '$lib/command/lines';
import { parseJson } from '$lib/json/exact';
import { findStart, rerunOf } from './rerun';

const properties = {
  language: { enum: ['en', 'de'], default: 'de' },
  pages: { type: 'integer', default: 3 },
  topics: { type: 'array', items: { type: 'string' }, default: ['a', 'b'] },
  title: { type: 'string' },
};
const fields = fieldsOf({ type: 'object', properties }) as Field[];

describe('parameters', () => {
  it('start with their defaults', () => {
    const texts = withDefaults(fields, {}, []);
    expect(texts).toEqual({ language: 'de', pages: '3', topics: 'a\nb', title: '' });
    expect(parametersOf(fields, texts)).toEqual({ language: 'de', pages: 3, topics: ['a', 'b'] });
  });

  it('keep what was typed when the agent changes, and take its defaults otherwise', () => {
    const other = fieldsOf({ type: 'object', properties: { language: { enum: ['en', 'de'], default: 'en' }, title: { type: 'string', default: 'none' }, pages: { type: 'integer', default: 5 } } }) as Field[];
    const typed = { ...withDefaults(fields, {}, []), pages: '8', title: '' };
    expect(withDefaults(other, typed, fields)).toMatchObject({ language: 'en', pages: '8', title: 'none' });
  });

  it('of an earlier run leave its unset ones empty', () => {
    expect(textsOf(fields, { language: 'en', topics: ['x', 'y'] })).toEqual({ language: 'en', pages: '', topics: 'x\ny', title: '' });
  });

  it('keep all digits on the way from an earlier run into the request and the command', () => {
    const parameters = parseJson('{"pages": 9007199254740993}') as Record<string, unknown>;
    const texts = textsOf(fields, parameters);
    expect(texts).toMatchObject({ pages: '9007199254740993' });
    const body = requestBody({ ...NO_OPTIONS, agent: 'a', parameters: parametersOf(fields, texts ?? {}), schema: 'inline', schemaName: '', inlineSchema: parseJson('{"const": 1e400}') });
    expect(commandLines({ path: '/runs', body }, null, 'http://server', false).curl).toContain('"parameters":{"pages":9007199254740993},"output_schema":{"const":1e400}');
  });

  it('of an earlier run that no field expresses need the editor', () => {
    expect(textsOf(fields, { language: 'en', region: 'north' })).toBeNull();
    expect(textsOf(fields, { title: 7 })).toBeNull();
    expect(textsOf(fields, { topics: ['one\ntwo'] })).toBeNull();
  });
});

describe('schemas of parameters', () => {
  const one = (property: object, required = true) => fieldsOf({ type: 'object', required: required ? ['x'] : [], properties: { x: property } }) as Field[];

  it('may name members that every object has', () => {
    const named = fieldsOf({ type: 'object', required: ['constructor'], properties: { constructor: { type: 'string' }, toString: { type: 'integer' } } }) as Field[];
    const texts = withDefaults(named, {}, []);
    expect([texts.constructor, parametersOf(named, {})]).toEqual(['', { constructor: '' }]);
    expect(parametersOf(named, { ...texts, toString: '5' } as never)).toEqual({ constructor: '', toString: 5 });
    expect(textsOf(named, { constructor: 'x' })).toMatchObject({ constructor: 'x' });
    expect(fieldsOf({ type: 'object', properties: JSON.parse('{"__proto__": {"type": "string"}}') })).toBeNull();
  });

  it('may require a text that is empty, but leave out numbers without digits', () => {
    expect(parametersOf(one({ type: 'string' }), { x: '' })).toEqual({ x: '' });
    expect(one({ type: 'string', minLength: 1 })[0]?.mayBeEmpty).toBe(false);
    expect(parametersOf(one({ type: 'array', items: { type: 'string' } }), { x: '' })).toEqual({ x: [] });
    expect(parametersOf(one({ type: 'integer' }), { x: '' })).toEqual({});
  });

  it('with the default null have an empty field', () => {
    expect(withDefaults(one({ type: 'string', default: null }), {}, [])).toEqual({ x: '' });
    expect(withDefaults(one({ enum: ['a', null], default: null }), {}, [])).toEqual({ x: 'null' });
  });

  it('that a form cannot express need the editor', () => {
    expect(fieldsOf({ type: 'object', required: ['other'], properties: { x: { type: 'string' } } })).toBeNull();
    expect(fieldsOf({ type: 'object', properties: {}, additionalProperties: { type: 'string' } })).toBeNull();
    expect(fieldsOf({ type: 'object', properties: {}, additionalProperties: false })).toEqual([]);
    expect([one({ enum: ['5', 5] }), one({ enum: ['', 'a'] })]).toEqual([null, null]);
  });
});

describe('command of a run', () => {
  const command = (parameters: Record<string, unknown>) => {
    const { words, input = null, files = [] } = cliCommand({ ...NO_OPTIONS, agent: 'a', parameters, schema: 'agent', schemaName: '', inlineSchema: undefined });
    return { words: words.join(' '), input, files: files.map(({ name }) => name) };
  };

  it('keeps a prompt that looks like an option, or like standard input', () => {
    expect(command({ prompt: '-v is broken' }).words).toBe('run a --prompt=-v is broken');
    expect(command({ prompt: '-' })).toEqual({ words: 'run a --params -', input: '{"prompt":"-"}', files: [] });
  });

  it('keeps texts that look like JSON, and names that no option can have', () => {
    expect(command({ version: '5', n: 5 })).toEqual({ words: 'run a --params -', input: '{"version":"5","n":5}', files: [] });
    expect(command({ version: 'v5', n: 5, list: ['a'] })).toEqual({ words: 'run a --param version=v5 --param n=5 --param list=["a"]', input: null, files: [] });
    expect(command({ 'a=b': 'x' }).input).toBe('{"a=b":"x"}');
    expect(commandLines({ path: '/runs' }, { words: ['run', 'a', '--params', '-'], input: `{"x":"it's"}` }, 'http://s', false).cli).toBe(`slipform run a --params - --server http://s <<'END'\n{"x":"it's"}\nEND`);
  });

  it('and its curl line read long texts from files', () => {
    const prompt = 'x'.repeat(LINE_MAX);
    expect(command({ prompt })).toEqual({ words: 'run a --params params.json', input: null, files: ['params.json'] });
    const { curl, files } = commandLines({ method: 'POST', path: '/runs', body: { prompt } }, null, 'http://s', false);
    expect([curl.endsWith('-d @body.json'), files.map(({ name }) => name), JSON.parse(files[0]?.text ?? '')]).toEqual([true, ['body.json'], { prompt }]);
  });
});

describe('options', () => {
  const choices: RunChoices = { ...NO_OPTIONS, agent: 'a', parameters: { prompt: 'x' }, schema: 'agent', schemaName: '', inlineSchema: undefined, maxTokens: '40', timeout: '30' };

  it('bound tokens and time', () => {
    expect(requestBody(choices)).toEqual({ agent_name: 'a', prompt: 'x', max_tokens: 40, timeout_seconds: 30 });
    expect(cliCommand(choices).words.join(' ')).toBe('run a -p x --max-tokens 40 --timeout 30');
  });

  it('without a field are kept', () => {
    const kept = { ...choices, others: { strict_json_only: true, correction: 'patch' } };
    expect(requestBody(kept).output_schema_options).toEqual({ strict_json_only: true, correction: 'patch' });
    expect(hasCliCommand(kept)).toBe(true);
    expect(cliCommand(kept).words.slice(-3)).toEqual(['--strict-json-only', '--correction', 'patch']);
    expect(hasCliCommand({ ...choices, others: { extract_json: false } })).toBe(false);
    expect(hasCliCommand({ ...choices, others: { strict_json_only: false } })).toBe(false);
  });
});

describe('run again', () => {
  const options = { max_retries: 1, extract_json: true, strict_json_only: false, validation_mode: 'strict', strategy: 'auto', correction: 'auto', schema_form: 'auto', reject_placeholders: false };
  const start = (members: Record<string, unknown>) => ({ event_type: 'run_start', run_id: 'run_1', type: 'start_session', input: '', parameters: { prompt: 'x' }, blueprint: {}, contract: { source: 'blueprint', schema: {}, hash: '', options }, ...members }) as unknown as Parameters<typeof rerunOf>[0];

  const again = (members: Record<string, unknown>) => rerunOf(start(members), { session_id: 'ses_1', project_dir: null });

  it('takes every choice of the request', () => {
    const contract = { source: 'named', schema_name: 's', schema: {}, hash: '', options: { ...options, max_retries: 4, validation_mode: 'lenient', strategy: 'tool', strict_json_only: true } };
    const rerun = again({ contract, overrides: { backend: 'b', model: 'm', max_tokens: 40, timeout_seconds: 30 } });
    expect(rerun).toMatchObject({ parameters: { prompt: 'x' }, schema: 'named', schemaName: 's' });
    expect(rerun.options).toEqual({ retries: '4', mode: 'lenient', strategy: 'tool', backend: 'b', model: 'm', maxTokens: '40', timeout: '30' });
    expect(rerun.others).toEqual({ strict_json_only: true });
  });

  it('leaves out what the agent sets', () => {
    const contract = { source: 'blueprint', schema: {}, hash: '', options: { ...options, validation_mode: 'lenient' } };
    const rerun = again({ contract, blueprint: { default_output_schema_options: { validation_mode: 'lenient' } } });
    expect(rerun.options).toEqual(NO_OPTIONS);
    expect(rerun.others).toEqual({});
    expect(again({ contract: { ...contract, source: 'default', options: { ...options, max_retries: 2 } } }).options.retries).toBe('');
    expect(again({ contract: null }).options).toEqual(NO_OPTIONS);
  });

  it('keeps the working folder, and names the session that the run continued', () => {
    const session = { session_id: 'ses_1', project_dir: 'packages/app' };
    expect(rerunOf(start({}), session)).toMatchObject({ projectDir: 'packages/app', session: '' });
    const resumed = rerunOf(start({ type: 'resume_session' }), session);
    expect(resumed.session).toBe('ses_1');
    const choices: RunChoices = { ...NO_OPTIONS, agent: 'a', parameters: { prompt: 'x' }, schema: 'agent', schemaName: '', inlineSchema: undefined, projectDir: 'packages/app' };
    expect([requestBody(choices), hasCliCommand(choices)]).toEqual([{ agent_name: 'a', prompt: 'x', project_dir: 'packages/app' }, false]);
    const next = { ...choices, session: 'ses_1' };
    expect([requestBody(next), hasCliCommand(next), cliCommand(next).words.join(' ')]).toEqual([{ session_id: 'ses_1', prompt: 'x' }, true, 'run a -p x --session ses_1']);
  });

  it('finds the start of the run beyond the first page of a journal', async () => {
    const pages = [0, 1_000, 2_000];
    const read = (after: number) => {
      const events = after === 2_000 ? [start({ run_id: 'run_2' })] : [start({})];
      return Promise.resolve({ events: events as unknown as JournalEvent[], next: pages[pages.indexOf(after) + 1] ?? null });
    };
    expect((await findStart('run_2', read)).parameters).toEqual({ prompt: 'x' });
    await expect(findStart('run_3', read)).rejects.toThrow('no start of run run_3');
  });
});
