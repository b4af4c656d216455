export type Theme = 'system' | 'light' | 'dark';

const KEY = 'slipform.theme';
const isTheme = (value: string | null): value is Theme => value === 'light' || value === 'dark' || value === 'system';

export const theme = $state<{ value: Theme }>({ value: 'system' });

export function setTheme(value: Theme): void {
  theme.value = value;
  if (value === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = value;
  localStorage.setItem(KEY, value);
}

export function startTheme(): void {
  const stored = localStorage.getItem(KEY);
  if (isTheme(stored) && stored !== 'system') setTheme(stored);
}
