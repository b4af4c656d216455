import type { Outcome } from '$lib/runs/verdict';
import type { GatewayRequest } from '$lib/api/types';

/** Returns what the chip of a request needs. */
export function outcomeOf(request: GatewayRequest): Outcome {
  const { status, verdict, retry_count, repairs } = request;
  const error = request.error_type ? { type: request.error_type, message: request.error_message ?? '' } : null;
  return { status, verdict: verdict ?? null, retry_count, repairs, error };
}
