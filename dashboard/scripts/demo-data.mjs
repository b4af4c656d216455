// Agents, recorded replies and runs of the demo project. Each run shows one way in which a reply becomes a result.

const object = (properties, required = Object.keys(properties)) => ({ type: 'object', required, additionalProperties: false, properties });
const text = { type: 'string', minLength: 1 };

const ticket = object({ summary: text, urgency: { enum: ['low', 'medium', 'high'] } });
const issues = object({
  files_analyzed: { type: 'integer', minimum: 0 },
  severity: { type: 'string', enum: ['low', 'medium', 'high'], description: 'Highest severity of all issues' },
  issues: {
    type: 'array',
    items: object({ file: text, line: { type: 'integer', minimum: 1 }, message: text }),
  },
});
const invoice = object(
  { number: text, total: { type: 'number' }, currency: { enum: ['EUR', 'USD'] }, paid: { type: 'boolean' }, lines: { type: 'array', items: text } },
  ['number', 'total', 'currency'],
);

export const agents = {
  triage: { description: 'Judges how urgent a message is', tier: 'fast', output_schema: ticket, system_prompt: 'You judge how urgent a support message is.' },
  'code-analyzer': { description: 'Finds issues in source files', tier: 'analysis', output_schema: issues, system_prompt: 'You analyze source code and report issues.' },
  reviewer: { description: 'Reviews a change', tier: 'review', output_schema: issues },
  invoices: {
    title: 'Invoice reader',
    description: 'Reads the fields of an invoice',
    tier: 'extraction',
    default_output_schema: invoice,
    default_output_schema_options: { validation_mode: 'lenient' },
    parameters_schema: object({ document: text, language: { enum: ['en', 'de', 'fr'] }, pages: { type: 'integer', minimum: 1 }, draft: { type: 'boolean' } }, ['document']),
  },
  planner: { description: 'Escalates from a small to a large model', escalation: ['small', 'large'], output_schema: ticket, default_output_schema_options: { max_retries: 1 } },
  lead: { description: 'Answers questions with the help of others', tier: 'lead', agents: ['counter', 'writer'], output_schema: object({ answer: text }) },
  counter: {
    description: 'Counts the lines of a file',
    type: 'procedural',
    command: ['awk', 'END { printf "{\\"lines\\": %d}", NR }', '${params.file}'],
    parameters_as: 'placeholders',
    parameters_schema: { type: 'object', required: ['file'], properties: { file: { type: 'string' } } },
    output_schema: object({ lines: { type: 'integer' } }),
  },
  writer: { description: 'Writes short sentences', tier: 'writing', system_prompt: 'You write short sentences.' },
  team: { type: 'orchestrator', description: 'Splits a task and delegates the parts', tier: 'team', agents: ['scanner', 'writer'] },
  scanner: { description: 'Scans one file', tier: 'scan', output_schema: object({ findings: { type: 'integer' } }) },
  echo: { description: 'Repeats its input', tier: 'echo' },
  'customer-support-triage-for-the-regional-office-north-west-2': {
    description: 'Judges how urgent the messages of customers in the north-west are, in the words of the regional office',
    tier: 'regional-office-north-west-with-a-long-name',
    output_schema: ticket,
  },
  comments: { description: 'Collects comments as they were written', tier: 'hostile', output_schema: object({ comments: { type: 'array', items: { type: 'string' } } }) },
  export: {
    description: 'Exports all measurements',
    type: 'procedural',
    command: ['awk', 'BEGIN { printf "{\\"rows\\": ["; for (i = 0; i < 30000; i++) printf "%s{\\"id\\": %d, \\"name\\": \\"sensor %06d\\", \\"value\\": %d.5, \\"unit\\": \\"kelvin\\", \\"station\\": \\"north-%04d\\"}", i ? "," : "", i, i, i % 300, i % 999; printf "]}" }'],
    parameters_as: 'stdin',
    output_schema: object({ rows: { type: 'array', items: { type: 'object' } } }),
  },
  importer: { description: 'Fails with an exit status', type: 'procedural', command: ['sh', '-c', 'echo "no such table: measurements" >&2; exit 3'], parameters_as: 'stdin' },
  waiter: { description: 'Runs until it is stopped', type: 'procedural', command: ['sleep', '600'], parameters_as: 'stdin' },
};

const bad = '{"files_analyzed": 42, "severity": "critical", "issues": [{"file": "src/login.rs", "line": 17, "message": "SQL injection"}]}';
const good = bad.replace('critical', 'high');
const files = ['login', 'api', 'store', 'queue', 'runner', 'export', 'mail', 'search', 'billing'];
const plan = {
  subtasks: [
    ...files.map((name, index) => ({ id: `scan-${name}`, description: `Scan src/${name}.rs.`, agent: 'scanner', dependencies: index < 6 ? [] : [`scan-${files[index - 6]}`], priority: index < 6 ? 1 : 2 })),
    { id: 'write', description: 'Write a sentence about the findings.', agent: 'writer', dependencies: files.map((name) => `scan-${name}`), priority: 3 },
  ],
};

export const replies = {
  fast: ['{"summary": "The disk of build-7 is full.", "urgency": "high"}', '{"summary": "A question about the invoice.", "urgency": "low"}', '{"summary": "Login fails for everyone.", "urgency": "high"}'],
  analysis: [bad, bad],
  review: [
    `Here is my review:\n\n\`\`\`json\n{\n  // 42 files\n  files_analyzed: 42,\n  'severity': 'high',\n  "issues": [\n    {"file": "src/login.rs", "line": 17, "message": "SQL injection"},\n  ],\n}\n\`\`\`\n\nLet me know if you need anything else!`,
    bad,
    good,
  ],
  extraction: ['{number: "2026-117", "total": "1,299.00", "currency": "eur", "paid": "yes", "lines": "Formwork rental"', 'I could not read the document.', 'The scan is blank.', 'There is no invoice in it.'],
  small: ['This looks urgent.', '{"summary": "Login fails", "urgency": "very high"}'],
  large: ['{"summary": "Login fails for everyone.", "urgency": "high"}'],
  'regional-office-north-west-with-a-long-name': ['{"summary": "The line to the warehouse is down.", "urgency": "high"}', 'I am not sure.', 'It depends.'],
  lead: [
    { tool_calls: [{ name: 'start_agent_session', arguments: { agent_name: 'counter', parameters: { file: 'poem.txt' } } }] },
    { tool_calls: [{ name: 'start_agent_session', arguments: { agent_name: 'writer', prompt: 'Say that poem.txt has 2 lines.' } }] },
    { tool_calls: [{ name: 'submit_result', arguments: { answer: 'poem.txt has two lines.' } }] },
  ],
  writing: ['poem.txt has two lines.', 'The nine files have twelve findings in total.'],
  team: [{ tool_calls: [{ name: 'create_execution_plan', arguments: plan }] }, `The files have twelve findings ${files.map((name) => `[scan-${name}]`).join(' ')}. [write]`],
  scan: [2, 1, 0, 3, 1, 0, 2, 1, 2].map((findings) => JSON.stringify({ findings })),
  echo: ['The harbour was quiet.', 'At dawn the harbour was quiet.'],
  hostile: [
    `<script>document.title = 'owned'</script> Sure! {"comments": ["<img src=x onerror=\\"document.title='owned'\\">", "<script>alert(1)</script>", "javascript:alert(1)", "user\u202Enimda\u202C and zero\u200Bwidth", "\\u202Ereversed", "👩‍🚀 launched 𝔘nicode", "<b>bold</b> &amp; {@html}"],}`,
  ],
};

const invoiceReply = '{"number": "2026-117", "total": 1299, "currency": "EUR"}';
// The backends of requests to the gateway; `silent` has no replies.
Object.assign(replies, {
  chat: ['The harbour was quiet.', invoiceReply, 'The invoice is:\n{number: "2026-118", "total": 12.5, "currency": "EUR",}', 'I think it is 1299 euros.', invoiceReply, '{"number": "2026-119"}', '{"number": "2026-119", "total": "unknown"}', '{"number": "2026-119", "total": 80, "currency": "CHF"}', 'At dawn the harbour was quiet.'],
  silent: [],
});

/** Names of models that clients use, and the backends that answer for them. */
export const gatewaySettings = '[gateway.routes]\n"gpt-4o-mini" = ["chat"]\n"gpt-4o" = ["silent"]\n';

const chat = (model, content, members = {}) => ({ model, messages: [{ role: 'user', content }], ...members });
const asInvoice = { response_format: { type: 'json_schema', json_schema: { name: 'invoice', schema: invoice } } };
/** Requests of OpenAI clients, one for each way in which they end. */
export const requests = [
  chat('chat', 'One sentence about a harbour.'),
  chat('gpt-4o-mini', 'Read invoice 117.', asInvoice),
  chat('gpt-4o-mini', 'Read invoice 118.', asInvoice),
  chat('gpt-4o-mini', 'Read invoice 117 again.', asInvoice),
  chat('gpt-4o-mini', 'Read invoice 119.', asInvoice),
  chat('chat/chat-8b', 'One more sentence.', { stream: true }),
  chat('gpt-4o', 'Read invoice 120.', asInvoice),
];

const prompt = (value) => ({ prompt: value });
export const runs = {
  first: { agent_name: 'triage', ...prompt('URGENT: disk full on build-7') },
  second: { agent_name: 'triage', ...prompt('Where do I find my invoice?') },
  repaired: { agent_name: 'reviewer', ...prompt('Review the last change') },
  retried: { agent_name: 'reviewer', ...prompt('Review it again') },
  failed: { agent_name: 'code-analyzer', ...prompt('Analyze src/') },
  lenient: { agent_name: 'invoices', parameters: { document: 'invoice-117.pdf', pages: 2 } },
  empty: { agent_name: 'invoices', parameters: { document: 'blank.pdf' } },
  escalated: { agent_name: 'planner', ...prompt('Nobody can log in') },
  delegated: { agent_name: 'lead', ...prompt('How long is poem.txt?') },
  orchestrated: { agent_name: 'team', ...prompt('Scan all files and summarize') },
  long_name: { agent_name: 'customer-support-triage-for-the-regional-office-north-west-2', ...prompt('The line to the warehouse is down') },
  long_name_failed: { agent_name: 'customer-support-triage-for-the-regional-office-north-west-2', ...prompt('Is this urgent?') },
  hostile: { agent_name: 'comments', ...prompt('Collect the comments') },
  large: { agent_name: 'export', ...prompt('everything') },
  broken: { agent_name: 'importer', ...prompt('measurements.csv') },
  unanswered: { agent_name: 'code-analyzer', ...prompt('Analyze tests/') },
  text: { agent_name: 'echo', ...prompt('One sentence about a harbour.') },
};
