export const REQUEST_STATUSES = ['completed', 'failed'] as const;
type RequestStatus = (typeof REQUEST_STATUSES)[number];

/** Filters of the gateway's requests, as they stand in the address of the page. */
export interface RequestFilters {
  backend: string;
  status: RequestStatus | '';
}

export const NO_REQUEST_FILTERS: RequestFilters = { backend: '', status: '' };

/** Reads filters from a query string. Unknown statuses are ignored. */
export function parseRequestFilters(query: URLSearchParams): RequestFilters {
  const status = REQUEST_STATUSES.find((name) => name === query.get('status')) ?? '';
  return { backend: query.get('backend')?.trim() ?? '', status };
}

export function requestFilterQuery(filters: RequestFilters): string {
  const text = new URLSearchParams(Object.entries(filters).filter(([, value]) => value !== '')).toString();
  return text ? `?${text}` : '';
}

/** Returns the query of `GET /gateway/requests` for these filters. */
export function requestApiQuery(filters: RequestFilters): { backend?: string; status?: RequestStatus } {
  return { ...(filters.backend ? { backend: filters.backend } : {}), ...(filters.status ? { status: filters.status } : {}) };
}
