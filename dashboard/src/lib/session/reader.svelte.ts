import type { JournalEvent } from '$lib/api/types';

/** A page of events, oldest first. */
export interface EventPage {
  events: JournalEvent[];
  next?: number | null;
}

/** The journal of a session: read in pages once a tab shows it, and continued by the events of the stream. */
export class JournalReader {
  error = $state.raw<unknown>(null);
  // Appending to one array keeps a long journal from being copied for each of its pages; `count` tells readers that it grew.
  private readonly known: JournalEvent[] = [];
  private count = $state(0);
  private reading: Promise<void> | null = null;
  private isWanted = false;
  private isBehind = false;
  private isClosed = false;

  constructor(private readonly readPage: (after: number) => Promise<EventPage>) {}

  get events(): readonly JournalEvent[] {
    void this.count;
    return this.known;
  }

  /** Reads up to the current end. A call during a read makes it read once more, because it may be past the end already. */
  read(): Promise<void> {
    this.isWanted = true;
    this.isBehind = true;
    this.reading ??= this.catchUp().finally(() => (this.reading = null));
    return this.reading;
  }

  /** Adds consecutive events of the stream, or reads them if others are missing before them. */
  add(events: JournalEvent[]): void {
    const first = events[0];
    if (!this.isWanted || !first) return;
    if (first.seq > this.lastSeq() + 1) void this.read();
    else this.append(events);
  }

  close(): void {
    this.isClosed = true;
  }

  private async catchUp(): Promise<void> {
    try {
      while (this.isBehind && !this.isClosed) {
        this.isBehind = false;
        for (let more = true; more && !this.isClosed; ) {
          const page = await this.readPage(this.lastSeq());
          this.append(page.events);
          more = typeof page.next === 'number' && page.events.length > 0;
        }
      }
      this.error = null;
    } catch (error) {
      this.error = error;
    }
  }

  private lastSeq(): number {
    return this.known.at(-1)?.seq ?? 0;
  }

  /** Appends events in order of `seq`, without those that are already known. */
  private append(events: JournalEvent[]): void {
    for (const event of events) if (event.seq > this.lastSeq()) this.known.push(event);
    this.count = this.known.length;
  }
}
