/** Earlier years occur only while a year is typed. */
const YEAR_MIN = 1970;

const two = (value: number) => String(value).padStart(2, '0');
const dayOf = (date: Date) => `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;

/**
 * Returns the limit for the time of creation with which a list, newest first, starts at the end of a day; null if the day is
 * incomplete. Days are those of the browser's time zone, as in `datetime-local` inputs.
 */
export function beforeEndOf(day: string): string | null {
  const [year = 0, month = 0, date = 0] = day.split('-').map(Number);
  const next = new Date(year, month - 1, date + 1);
  return year < YEAR_MIN || Number.isNaN(next.getTime()) ? null : `${dayOf(next)}T00:00`;
}

/** Returns a time as `datetime-local` inputs show it, in the browser's time zone; empty without a time. */
export function localInput(time: string): string {
  const date = new Date(time);
  if (time === '' || Number.isNaN(date.getTime())) return '';
  return `${dayOf(date)}T${two(date.getHours())}:${two(date.getMinutes())}`;
}

/** Whether a `datetime-local` input is complete: it reports each digit of a year as a year. */
export function isCompleteTime(input: string): boolean {
  return input === '' || new Date(input).getFullYear() >= YEAR_MIN;
}

/** Returns the last day before a limit; empty without a limit. */
export function lastDayBefore(limit: string): string {
  return limit === '' ? '' : dayOf(new Date(Date.parse(limit) - 1));
}
