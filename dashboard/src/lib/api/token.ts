const KEY = 'slipform.token';

/** Moves a token from `#token=` of the address into session storage, so that it stays out of history and links. */
export function takeTokenFromAddress(): void {
  const match = /^#token=(.+)$/.exec(location.hash);
  if (!match) return;
  saveToken(decodeURIComponent(match[1] ?? ''));
  history.replaceState(history.state, '', location.pathname + location.search);
}

export function token(): string | null {
  return sessionStorage.getItem(KEY);
}

export function saveToken(value: string): void {
  sessionStorage.setItem(KEY, value.trim());
}

export function clearToken(): void {
  sessionStorage.removeItem(KEY);
}
