import { ApiError, messageOf } from '$lib/api/client';
import { connection } from './stream.svelte';

const MAX_DELAY_MS = 30_000;

/** Calls a function at an interval while the tab is visible. After failures the interval grows. */
export class Poll {
  private timer: ReturnType<typeof setTimeout> | undefined;
  private failures = 0;
  private running = false;
  private closed = false;

  constructor(
    private readonly read: () => Promise<void>,
    private readonly intervalMs: number,
  ) {
    document.addEventListener('visibilitychange', this.onVisibility);
    window.addEventListener('online', this.now);
    connection.state = document.hidden ? 'paused' : 'connecting';
    connection.reason = '';
    void this.run();
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.timer);
    document.removeEventListener('visibilitychange', this.onVisibility);
    window.removeEventListener('online', this.now);
    connection.state = 'off';
  }

  /** Calls the function without waiting for the interval. */
  now = (): void => {
    clearTimeout(this.timer);
    void this.run();
  };

  private onVisibility = (): void => {
    if (document.hidden) {
      clearTimeout(this.timer);
      connection.state = 'paused';
    } else {
      this.now();
    }
  };

  private async run(): Promise<void> {
    if (this.running || this.closed || document.hidden) return;
    this.running = true;
    try {
      await this.read();
      this.report('live', '');
      this.failures = 0;
    } catch (error) {
      // The login screen takes over; it starts a new poll afterwards.
      if (error instanceof ApiError && error.status === 401) this.closed = true;
      this.report('waiting', messageOf(error));
      this.failures += 1;
    }
    this.running = false;
    clearTimeout(this.timer);
    if (!this.closed && !document.hidden) this.timer = setTimeout(() => void this.run(), Math.min(MAX_DELAY_MS, this.intervalMs * 2 ** this.failures));
  }

  private report(state: 'live' | 'waiting', reason: string): void {
    if (this.closed || document.hidden) return;
    connection.state = state;
    connection.reason = reason;
  }
}
