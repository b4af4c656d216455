import { ApiError, errorOf, send } from '$lib/api/client';
import { SseParser, type SseMessage } from './sse';

export type ConnectionState = 'off' | 'connecting' | 'live' | 'waiting' | 'paused';

/** State of the stream of the current screen, shown in the navigation. */
export const connection = $state<{ state: ConnectionState; reason: string }>({ state: 'off', reason: '' });

export interface StreamOptions {
  path: string;
  onMessage: (message: SseMessage) => void;
  /** Called after every successful connection; `resumed` is false when events may have been missed. */
  onOpen?: (resumed: boolean) => void;
  /** Called when the server refuses the stream, for example because its session was deleted. The stream tries again until it is closed. */
  onRefused?: () => void;
  lastId?: string | null;
}

const FIRST_DELAY_MS = 500;
const MAX_DELAY_MS = 10_000;
/** A server sends a comment every few seconds; silence for longer means that the connection is dead. */
const SILENCE_MAX_MS = 45_000;

/**
 * Follows a stream of server-sent events while the tab is visible. It reconnects with exponential backoff, and resumes
 * after the last received id, so that no event is lost or repeated.
 */
export class EventStream {
  private lastId: string | null;
  private controller: AbortController | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private silence: ReturnType<typeof setTimeout> | undefined;
  private failures = 0;
  private closed = false;

  constructor(private readonly options: StreamOptions) {
    this.lastId = options.lastId ?? null;
    document.addEventListener('visibilitychange', this.onVisibility);
    window.addEventListener('online', this.retryNow);
    if (document.hidden) connection.state = 'paused';
    else void this.connect();
  }

  close(): void {
    this.closed = true;
    document.removeEventListener('visibilitychange', this.onVisibility);
    window.removeEventListener('online', this.retryNow);
    this.disconnect();
    connection.state = 'off';
  }

  retryNow = (): void => {
    if (this.closed || document.hidden || connection.state === 'live') return;
    this.disconnect();
    void this.connect();
  };

  private onVisibility = (): void => {
    this.disconnect();
    if (document.hidden) {
      connection.state = 'paused';
    } else {
      this.failures = 0;
      void this.connect();
    }
  };

  private disconnect(): void {
    clearTimeout(this.timer);
    clearTimeout(this.silence);
    this.controller?.abort();
    this.controller = null;
  }

  private async connect(): Promise<void> {
    const controller = new AbortController();
    this.controller = controller;
    connection.state = this.failures === 0 ? 'connecting' : 'waiting';
    try {
      const headers: Record<string, string> = { accept: 'text/event-stream' };
      if (this.lastId !== null) headers['last-event-id'] = this.lastId;
      const response = await send(location.origin + this.options.path, { headers, signal: controller.signal, cache: 'no-store' });
      if (!response.ok || !response.body) throw await errorOf(response);
      connection.state = 'live';
      connection.reason = '';
      this.options.onOpen?.(this.lastId !== null);
      await this.read(response.body, controller);
      this.failures = 0;
      this.schedule('the server ended the stream');
    } catch (error) {
      if (controller !== this.controller || this.closed) return;
      this.failed(error);
    }
  }

  private async read(body: ReadableStream<Uint8Array>, controller: AbortController): Promise<void> {
    const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
    const parser = new SseParser();
    for (;;) {
      clearTimeout(this.silence);
      this.silence = setTimeout(() => {
        controller.abort();
        this.schedule('the server was silent');
      }, SILENCE_MAX_MS);
      const { done, value } = await reader.read();
      if (done || controller !== this.controller) return;
      this.failures = 0;
      for (const message of parser.push(value)) {
        if (message.id !== null) this.lastId = message.id;
        this.options.onMessage(message);
      }
      if (parser.lastId !== null) this.lastId = parser.lastId;
    }
  }

  private failed(error: unknown): void {
    if (error instanceof ApiError && error.status === 401) {
      this.close();
      return;
    }
    const refused = error instanceof ApiError && error.status >= 400 && error.status < 500 && error.status !== 429;
    // A restored database does not know the id; start again, and let the screen reload what it shows.
    if (refused) {
      this.lastId = null;
      this.options.onRefused?.();
    }
    this.schedule(error instanceof Error ? error.message : 'the connection was lost');
  }

  private schedule(reason: string): void {
    if (this.closed || document.hidden) return;
    clearTimeout(this.timer);
    clearTimeout(this.silence);
    connection.state = 'waiting';
    connection.reason = reason;
    const delay = Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** this.failures);
    this.failures += 1;
    this.timer = setTimeout(() => void this.connect(), delay / 2 + (Math.random() * delay) / 2);
  }
}
