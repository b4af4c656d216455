export interface SseMessage {
  id: string | null;
  event: string;
  data: string;
}

/** Parses a stream of server-sent events that arrives in arbitrary pieces. */
export class SseParser {
  private rest = '';
  private id: string | null = null;
  /** Id of the last complete frame, also of one without data. */
  lastId: string | null = null;
  private event = '';
  private data: string[] = [];

  push(chunk: string): SseMessage[] {
    const messages: SseMessage[] = [];
    this.rest += chunk;
    for (;;) {
      const end = /\r\n|\n|\r(?!$)/.exec(this.rest);
      if (!end) return messages;
      const message = this.line(this.rest.slice(0, end.index));
      this.rest = this.rest.slice(end.index + end[0].length);
      if (message) messages.push(message);
    }
  }

  private line(line: string): SseMessage | null {
    if (line === '') return this.dispatch();
    const colon = line.indexOf(':');
    if (colon === 0) return null;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === 'data') this.data.push(value);
    else if (field === 'event') this.event = value;
    else if (field === 'id' && !value.includes('\0')) this.id = value;
    return null;
  }

  private dispatch(): SseMessage | null {
    const message = { id: this.id, event: this.event || 'message', data: this.data.join('\n') };
    const empty = this.data.length === 0;
    this.lastId = this.id;
    this.event = '';
    this.data = [];
    return empty ? null : message;
  }
}
