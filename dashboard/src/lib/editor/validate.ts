import { client, unwrap } from '$lib/api/client';
import type { Validate } from './editor';

export const validateSchema: Validate = (schema) => unwrap(client.POST('/schemas/validate', { body: { schema } }));
export const validateAgent: Validate = (agent) => unwrap(client.POST('/agents/validate', { body: agent as Record<string, never> }));
