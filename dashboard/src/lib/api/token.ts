const KEY = 'slipform.token';

/** Tokens are ASCII; a header cannot carry other characters. */
export function isToken(value: string): boolean {
  return /^[\x21-\x7e]+$/.test(value);
}

function decoded(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    return value;
  }
}

/**
 * Moves a token from `#token=` of the address into session storage, so that it stays out of history and links. Returns
 * false if the link holds no token.
 */
export function takeTokenFromAddress(): boolean {
  const match = /^#token=(.*)$/s.exec(location.hash);
  if (!match) return true;
  history.replaceState(history.state, '', location.pathname + location.search);
  return saveToken(decoded(match[1] ?? ''));
}

export function token(): string | null {
  const kept = sessionStorage.getItem(KEY);
  return kept !== null && isToken(kept) ? kept : null;
}

/** Keeps a token; returns false for a text that cannot be one. */
export function saveToken(value: string): boolean {
  const text = value.trim();
  if (isToken(text)) sessionStorage.setItem(KEY, text);
  return isToken(text);
}

export function clearToken(): void {
  sessionStorage.removeItem(KEY);
}
