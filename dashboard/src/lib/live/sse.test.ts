import { describe, expect, it } from 'vitest';
import { SseParser } from './sse';

const parse = (...chunks: string[]) => {
  const parser = new SseParser();
  return chunks.flatMap((chunk) => parser.push(chunk));
};

describe('SseParser', () => {
  it('parses an event with id and type', () => {
    expect(parse('id: 7-1\nevent: run_start\ndata: {"a": 1}\n\n')).toEqual([{ id: '7-1', event: 'run_start', data: '{"a": 1}' }]);
  });

  it('accepts events in arbitrary pieces', () => {
    const whole = 'id: 1\ndata: x\n\nid: 2\r\ndata: y\r\n\r\n: comment\n\ndata: z\n\n';
    const expected = parse(whole);
    expect(expected.map((message) => [message.id, message.data])).toEqual([['1', 'x'], ['2', 'y'], ['2', 'z']]);
    expect(parse(...whole)).toEqual(expected);
  });

  it('joins data lines and ignores comments and unknown fields', () => {
    expect(parse(': keep-alive\nretry: 5\ndata: a\ndata:b\ndata\n\n')).toEqual([{ id: null, event: 'message', data: 'a\nb\n' }]);
  });

  it('does not dispatch without data', () => {
    expect(parse('id: 3\n\n', 'data: x\n\n')).toEqual([{ id: '3', event: 'message', data: 'x' }]);
  });

  it('keeps an unfinished event back', () => {
    expect(parse('data: x\n')).toEqual([]);
  });

  it('remember the id of a frame without data', () => {
    const parser = new SseParser();
    expect(parser.push('id: 7\ndata: x\n\nid: 9\n')).toHaveLength(1);
    expect(parser.lastId).toBe('7');
    expect([parser.push('\n'), parser.lastId]).toEqual([[], '9']);
  });
});
