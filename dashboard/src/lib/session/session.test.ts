import { describe, expect, it } from 'vitest';
import { withEscalation } from './calls';
import { details, sentence, tone } from './journal';
import { repairMarks, violationMarks } from './marks';
import { explanation, FAILURE_TYPES, resultKind, retryWords, schemaOutcome } from './outcome';
import { subtasks, treeRows } from './timeline';
import { mergePatch } from '../agents/patch';
import { quote } from '../command/lines';
import { fieldsOf, parametersOf } from '../forms/parameters';
import { cliCommand, requestBody, type RunChoices } from '../forms/request';
import { match } from '../nav/routes';
import { heatMap, totals } from '../stats/figures';
import type { Call, JournalEvent, Run, RunSummary } from '$lib/api/types';

const event = (seq: number, event_type: string, members: object = {}) => ({ seq, session_id: 's', run_id: 'r', timestamp: '2026-11-18T12:00:00Z', event_type, ...members }) as unknown as JournalEvent;

describe('journal', () => {
  it('says what happened', () => {
    expect(sentence(event(1, 'run_start', { type: 'start_session', input: 'Review  it' }))).toBe('a caller requested a run: Review it');
    expect(sentence(event(2, 'validation_failed', { errors: ['a'], consequence: 'retry 1 of 1' }))).toBe('the reply violates the schema in 1 place; retry 1 of 1');
    expect(sentence(event(3, 'run_completed', { status: 'failed', error: { type: 'timeout', message: 'late' } }))).toBe('the run failed with timeout: late');
    expect(sentence(event(4, 'brand_new'))).toBe('brand new');
  });

  it('is calm about retries', () => {
    expect(tone(event(1, 'validation_failed'))).toBe('accent');
    expect(tone(event(1, 'run_completed', { status: 'failed' }))).toBe('bad');
    expect(details(event(1, 'x', { a: 1, b: null }))).toEqual([['a', 1]]);
  });
});

describe('calls', () => {
  const call = (consequence: string | null, outcome: Call['outcome'] = 'continued') => ({ outcome, consequence, violations: [] as string[] }) as unknown as Call;

  it('that led to the next tier are rejected with the violation', () => {
    expect(withEscalation(call('escalated to large: $.a: bad'))).toMatchObject({ outcome: 'rejected', violations: ['$.a: bad'], consequence: 'tier large takes over' });
    expect(withEscalation(call('the tool was called')).outcome).toBe('continued');
  });
});

describe('marks', () => {
  const repair = (kind: string, span: [number, number] | null) => ({ kind, span, pointer: '', from: null, to: null, lossless: true });
  const texts = (text: string, repairs: ReturnType<typeof repair>[], document: [number, number] | null) => repairMarks(text, repairs, document).map((mark) => [mark.tone, [...text].slice(mark.start, mark.end).join('')]);

  it('show the text around the document as left out', () => {
    expect(texts('👩 {"a": 1} ok', [repair('text_removed', null)], [2, 10])).toEqual([['removed', '👩 '], ['removed', ' ok']]);
    expect(texts('x {}', [repair('text_removed', null)], null)).toEqual([]);
  });

  it('narrow a container to its trailing comma', () => {
    expect(texts('👩 [1, 2 , // x\n]', [repair('comma_removed', [2, 17])], null)).toEqual([['lossless', ',']]);
    expect(texts('[1,, 2]', [repair('comma_removed', [0, 7])], null)).toEqual([['lossless', '['], ['lossless', ']']]);
    expect(texts("{a: 1, 'b c': 2}", [repair('quotes_changed', [0, 16])], null)).toEqual([['lossless', "'b c'"]]);
    expect(texts("['a']", [repair('quotes_changed', [1, 4])], null)).toEqual([['lossless', "'a'"]]);
  });

  it('find the whole value of a violation at the root', () => {
    expect(violationMarks('Sure: {"a": 1}', ['$: no'], null)).toMatchObject([{ start: 6, end: 7 }]);
    expect(violationMarks('👩 "text"', ['$: no'], [2, 8])).toMatchObject([{ start: 2, end: 8 }]);
    expect(violationMarks('no JSON', ['$: no JSON'], null)).toEqual([]);
  });

  it('find the value of a violation', () => {
    expect(violationMarks('👩 {"a": "x"}', ['$.a: bad', '$.b: missing'], null)).toMatchObject([{ id: 'violation-0', start: 8, end: 11 }]);
  });
});

describe('outcome', () => {
  const run = (members: object) => ({ status: 'failed', retry_count: 1, contract: {}, ...members }) as Run;
  it('uses the words of the design', () => {
    const failed = run({ error: { type: 'x', message: '', validation_errors: ['$.a: b'] }, schema_validation: { valid: false, max_retries: 1 } });
    expect(schemaOutcome(failed).word).toBe('Validation Failed');
    expect(retryWords(failed)).toBe('1/1 exhausted');
    expect(retryWords(run({ error: { type: 'timeout', message: '' }, max_retries: 2 }))).toBe('1/2');
    expect(retryWords(run({ error: { type: 'timeout', message: '' }, retry_count: 0, max_retries: 1 }))).toBe('0/1');
    expect(retryWords(run({ status: 'completed', max_retries: 1 }))).toBe('1/1');
    expect(retryWords(run({ status: 'completed', retry_count: 2, max_retries: 1, receipt: { rungs: [{}, {}] } }))).toBe('2/2');
    expect(retryWords(run({ status: 'completed', retry_count: 0, max_retries: 1 }))).toBeNull();
    expect(retryWords(run({ contract: null, max_retries: 1 }))).toBeNull();
    expect(schemaOutcome(run({ status: 'completed', schema_validation: { valid: true } })).word).toBe('Valid');
    expect(schemaOutcome(run({ status: 'running' })).word).toBe('not checked yet');
    expect(schemaOutcome(run({ contract: null })).word).toBe('none');
  });

  it('counts null as a result if the contract accepts it', () => {
    const valid = { status: 'completed', schema_validation: { valid: true }, result_data: null } as Partial<Run>;
    expect(resultKind(run(valid))).toBe('data');
    expect(resultKind(run({ status: 'completed', contract: null, result_text: '' }))).toBe('text');
    expect(resultKind(run({ status: 'completed', contract: null, result_text: null }))).toBe('none');
    expect(resultKind(run({ ...valid, status: 'failed' }))).toBe('none');
  });

  it('explains every type of failure, and says what to try', () => {
    expect(FAILURE_TYPES.filter((type) => !/^[A-Z].+ \(`\w+`\)\. [A-Z].+\.$/.test(explanation(type)))).toEqual([]);
  });

  it('counts calls that led to the first result without a retry', () => {
    const receipt = { calls: 3, retries: 0, repairs: [], rungs: [{ tier: 'lead' }] };
    expect(schemaOutcome(run({ status: 'completed', schema_validation: { valid: true }, receipt })).detail).toBe('first result accepted as it was written in 3 calls');
  });
});

describe('tree rows', () => {
  it('order children by time below their parent', () => {
    const make = (id: string, started: string) => ({ run_id: id, agent_name: id, started_at: started, created_at: started, finished_at: started }) as RunSummary;
    const root = make('root', '2026-11-18T12:00:00Z');
    const children = new Map([['root', [make('b', '2026-11-18T12:00:02Z'), make('a', '2026-11-18T12:00:01Z')]], ['a', [make('c', '2026-11-18T12:00:03Z')]]]);
    const events = [event(1, 'child_started', { call_id: '1.scan-api.2', child_run_id: 'b' })];
    expect(treeRows(root, children, events, 0).map((row) => [row.label, row.depth])).toEqual([['root', 0], ['a', 1], ['c', 2], ['scan-api (attempt 2) · b', 1]]);
  });

  it('give a run that has not ended no length before its start', () => {
    const child = { run_id: 'a', agent_name: 'a', started_at: '2026-11-18T12:00:00Z', created_at: '2026-11-18T12:00:00Z', finished_at: null } as RunSummary;
    expect(treeRows(child, new Map(), [], 0).map((row) => row.end - row.start)).toEqual([0]);
  });

  it('tell the rounds of an orchestration apart', () => {
    const plan = (seq: number, round: number, description: string) => event(seq, 'plan_created', { round, subtasks: [{ id: 'scan', agent: 'x', description }] });
    const child = (seq: number, call_id: string, child_run_id: string) => event(seq, 'child_started', { call_id, child_run_id });
    const events = [plan(1, 1, 'Scan all.'), child(2, '1.scan.1', 'a'), child(3, '1.scan.2', 'b'), plan(4, 2, 'Scan the rest.'), child(5, '2.scan.1', 'c')];
    expect([...subtasks(events).values()]).toEqual([
      { name: 'scan (round 1)', description: 'Scan all' },
      { name: 'scan (round 1, attempt 2)', description: 'Scan all' },
      { name: 'scan (round 2)', description: 'Scan the rest' },
    ]);
  });
});

describe('forms', () => {
  it('edit simple parameters and leave out empty ones', () => {
    const schema = { type: 'object', required: ['n'], properties: { n: { type: 'integer' }, flag: { type: 'boolean' }, tags: { type: 'array', items: { type: 'string' } }, lang: { enum: ['en', 2] } } };
    const fields = fieldsOf(schema) ?? [];
    expect(fields.map((field) => field.kind)).toEqual(['integer', 'boolean', 'list', 'choice']);
    expect(parametersOf(fields, { n: '3', tags: 'a\n\nb', lang: '2' })).toEqual({ n: 3, tags: ['a', 'b'], lang: 2 });
    expect(fieldsOf({ type: 'object', properties: { nested: { type: 'object' } } })).toBeNull();
    expect(fieldsOf(null)?.[0]?.name).toBe('prompt');
  });

  it('build the request and the CLI line', () => {
    const choices: RunChoices = { agent: 'a', parameters: { prompt: "it's" }, schema: 'named', schemaName: 's', inlineSchema: null, retries: '0', mode: 'lenient', strategy: '', backend: 'b', model: '' };
    expect(requestBody(choices)).toEqual({ agent_name: 'a', prompt: "it's", output_schema_name: 's', output_schema_options: { max_retries: 0, validation_mode: 'lenient' }, backend: 'b' });
    expect(cliCommand(choices).words.map(quote).join(' ')).toBe(`run a -p 'it'\\''s' --schema s --max-retries 0 --mode lenient --backend b`);
  });
});

describe('small parts', () => {
  it('merge patch turns one blueprint into another', () => {
    expect(mergePatch({ a: 1, b: { c: 1, d: 2 }, e: [1] }, { b: { c: 1, d: 3 }, e: [1], f: 0 })).toEqual({ a: null, b: { d: 3 }, f: 0 });
  });

  it('routes decode parameters', () => {
    expect(match('/agents/:name', '/agents/a%20b')).toEqual({ name: 'a b' });
    expect(match('/agents/:name', '/agents')).toBeNull();
  });

  it('figures count tokens of failed runs', () => {
    const row = { runs: 2, completed: 1, reported_errors: 0, first_pass: 1, retries: 1, tokens: 100 };
    expect(totals([row] as never)).toMatchObject({ success: 0.5, firstPass: 1, tokensPerResult: 100 });
    const heat = heatMap([{ path: '$.a', backend: 'x', count: 1 }, { path: '$.b', backend: null, count: 5 }]);
    expect([heat.paths, heat.backends, heat.count('$.b', '–'), heat.max]).toEqual([['$.b', '$.a'], ['x', '–'], 5, 5]);
  });
});
