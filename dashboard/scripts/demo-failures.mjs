// Agents and runs of the demo project that fail, one for each type of failure that a script can cause.

const ticket = { type: 'object', required: ['summary', 'urgency'], properties: { summary: { type: 'string', minLength: 1 }, urgency: { enum: ['low', 'medium', 'high'] } } };
const read = { tool_calls: [{ name: 'fs_read', arguments: { path: 'poem.txt' } }] };

export const agents = {
  librarian: { description: 'Answers from the files of the project', tier: 'reading', tools: ['fs:read'], output_schema: ticket, default_output_schema_options: { strategy: 'tool' } },
  archivist: { description: 'Reads more files than it may', tier: 'browsing', tools: ['fs:read'], output_schema: ticket, limits: { max_tool_calls: 2 } },
  summarizer: { description: 'Needs more tokens than its model has', tier: 'window', output_schema: ticket },
  moderator: { description: 'Asks a model that refuses', tier: 'cautious', output_schema: ticket },
  analyst: { description: 'Asks for a model that is not loaded', tier: 'missing', output_schema: ticket },
  translator: { description: 'Asks a program without a licence', tier: 'unlicensed', output_schema: ticket },
  narrator: { description: 'Gets no answer', tier: 'mute' },
  crawler: { description: 'Takes longer than it may', type: 'procedural', command: ['sleep', '600'], parameters_as: 'stdin', limits: { timeout_seconds: 1 } },
};

export const replies = {
  reading: ['I have read the file.', 'The file has two lines.'],
  browsing: [read, read, read],
  mute: ['', ''],
};

/** Returns the settings of the backends that are not files with replies; `url` is the one of `startModel`. */
export const backends = (url) => ({
  window: `kind = "openai"\nbase_url = "${url}"\nmodel = "short-window"\n`,
  cautious: `kind = "openai"\nbase_url = "${url}"\nmodel = "cautious"\n`,
  missing: `kind = "openai"\nbase_url = "${url}"\nmodel = "missing"\n`,
  unlicensed: 'kind = "command"\ncommand = ["sh", "-c", "echo no licence for this machine >&2; exit 1"]\n',
});

const prompt = (value) => ({ prompt: value });
/** Named after the types of their errors. */
export const runs = {
  result_not_submitted: { agent_name: 'librarian', ...prompt('How long is poem.txt?') },
  limit_exceeded: { agent_name: 'archivist', ...prompt('Read everything') },
  output_truncated: { agent_name: 'summarizer', ...prompt('Summarize the log of build-7') },
  refused: { agent_name: 'moderator', ...prompt('Rate this comment') },
  backend_rejected: { agent_name: 'analyst', ...prompt('Compare both quarters') },
  backend_unavailable: { agent_name: 'translator', ...prompt('Translate the manual') },
  empty_reply: { agent_name: 'narrator', ...prompt('Tell a story') },
  timeout: { agent_name: 'crawler', ...prompt('https://example.com') },
};

/** A run that is stopped after it was submitted. */
export const stopped = { agent_name: 'waiter', ...prompt('until somebody stops it') };
