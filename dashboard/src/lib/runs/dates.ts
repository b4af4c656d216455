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

/** Returns the last day before a limit; empty without a limit. */
export function lastDayBefore(limit: string): string {
  return limit === '' ? '' : dayOf(new Date(Date.parse(limit) - 1));
}
