const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Formats a duration in milliseconds: `840 ms`, `12.4 s`, `3 min 5 s`, `2 h 10 min`, `3 d 4 h`. */
export function duration(milliseconds: number): string {
  const ms = Math.max(0, Math.round(milliseconds));
  if (ms < SECOND) return `${ms} ms`;
  if (ms < 9_950) return `${(ms / SECOND).toFixed(1)} s`;
  if (ms < MINUTE - 500) return `${Math.round(ms / SECOND)} s`;
  if (ms < HOUR) return pair(Math.round(ms / SECOND), 60, 'min', 's');
  if (ms < DAY) return pair(Math.round(ms / MINUTE), 60, 'h', 'min');
  return pair(Math.round(ms / HOUR), 24, 'd', 'h');
}

function pair(total: number, base: number, large: string, small: string): string {
  const rest = total % base;
  return rest === 0 ? `${Math.floor(total / base)} ${large}` : `${Math.floor(total / base)} ${large} ${rest} ${small}`;
}

/** Formats the time since `then`: `now`, `45 s`, `12 min`, `5 h`, `3 d`. Clocks that differ never give a negative age. */
export function age(then: string, now: number): string {
  const ms = Math.max(0, now - Date.parse(then));
  if (Number.isNaN(ms)) return '';
  if (ms < 5 * SECOND) return 'now';
  if (ms < MINUTE) return `${Math.floor(ms / SECOND)} s`;
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)} min`;
  if (ms < DAY) return `${Math.floor(ms / HOUR)} h`;
  return `${Math.floor(ms / DAY)} d`;
}

/** Returns the milliseconds between two RFC 3339 times, or until `now` if the second is missing. */
export function between(start: string | null | undefined, end: string | null | undefined, now: number): number | null {
  if (!start) return null;
  return Math.max(0, (end ? Date.parse(end) : now) - Date.parse(start));
}

const DATE_TIME = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' });
const MINUTES = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short' });
const CLOCK = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3 });

export function dateTime(time: string | null | undefined): string {
  return time ? DATE_TIME.format(new Date(time)) : '';
}

/** Formats a time without its seconds. */
export function dateMinutes(time: string): string {
  return MINUTES.format(new Date(time));
}

export function clock(time: string): string {
  return CLOCK.format(new Date(time));
}
