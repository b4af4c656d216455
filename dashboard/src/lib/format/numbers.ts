const WHOLE = new Intl.NumberFormat('en-US');

export function whole(value: number): string {
  return WHOLE.format(value);
}

/** Formats a large count in at most four digits: `950`, `12.4k`, `3.1M`. */
export function compact(value: number): string {
  if (value < 1_000) return String(Math.round(value));
  if (value < 999_950) return `${trimmed(value / 1_000)}k`;
  return `${trimmed(value / 1_000_000)}M`;
}

function trimmed(value: number): string {
  return value >= 100 ? String(Math.round(value)) : value.toFixed(1).replace(/\.0$/, '');
}

/** Formats a rate from 0 to 1. Only exact values are shown as 0 % and 100 %. */
export function percent(rate: number | null | undefined): string {
  if (rate === null || rate === undefined) return '–';
  const value = rate * 100;
  if (value > 0 && value < 0.1) return '< 0.1 %';
  if (value > 99.9 && value < 100) return '> 99.9 %';
  return `${value.toFixed(1).replace(/\.0$/, '')} %`;
}

export function bytes(count: number): string {
  if (count < 1_000) return `${count} B`;
  if (count < 999_950) return `${trimmed(count / 1_000)} KB`;
  return `${trimmed(count / 1_000_000)} MB`;
}

export function counted(count: number, one: string, many = `${one}s`): string {
  return `${whole(count)} ${count === 1 ? one : many}`;
}
