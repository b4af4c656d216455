/** The agent that a newcomer creates first. Its schema is small enough for the embedded model. */
export const EXAMPLE_AGENT = {
  name: 'triage',
  description: 'Judges how urgent a message is',
  system_prompt: 'You judge how urgent a support message is.',
  output_schema: {
    type: 'object',
    required: ['summary', 'urgency'],
    properties: { summary: { type: 'string', minLength: 1 }, urgency: { enum: ['low', 'medium', 'high'] } },
  },
};

export const EXAMPLE_TEXT = JSON.stringify(EXAMPLE_AGENT, null, 2);
