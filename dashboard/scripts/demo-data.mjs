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
const plan = {
  subtasks: [
    { id: 'scan', description: 'Scan src/login.rs.', agent: 'scanner', dependencies: [], priority: 1 },
    { id: 'scan-api', description: 'Scan src/api.rs.', agent: 'scanner', dependencies: [], priority: 1 },
    { id: 'write', description: 'Write a sentence about the findings.', agent: 'writer', dependencies: ['scan', 'scan-api'], priority: 2 },
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
  lead: [
    { tool_calls: [{ name: 'start_agent_session', arguments: { agent_name: 'counter', parameters: { file: 'poem.txt' } } }] },
    { tool_calls: [{ name: 'start_agent_session', arguments: { agent_name: 'writer', prompt: 'Say that poem.txt has 2 lines.' } }] },
    { tool_calls: [{ name: 'submit_result', arguments: { answer: 'poem.txt has two lines.' } }] },
  ],
  writing: ['poem.txt has two lines.', 'Both files have three findings in total.'],
  team: [{ tool_calls: [{ name: 'create_execution_plan', arguments: plan }] }, 'The files have three findings [scan] [scan-api]. [write]'],
  scan: ['{"findings": 2}', '{"findings": 1}'],
  echo: ['The harbour was quiet.', 'At dawn the harbour was quiet.'],
  hostile: [
    `<script>document.title = 'owned'</script> Sure! {"comments": ["<img src=x onerror=\\"document.title='owned'\\">", "<script>alert(1)</script>", "javascript:alert(1)", "user\u202Enimda\u202C and zero\u200Bwidth", "\\u202Ereversed", "👩‍🚀 launched 𝔘nicode", "<b>bold</b> &amp; {@html}"],}`,
  ],
};

const prompt = (value) => ({ prompt: value });
export const runs = {
  text: { agent_name: 'echo', ...prompt('One sentence about a harbour.') },
  first: { agent_name: 'triage', ...prompt('URGENT: disk full on build-7') },
  second: { agent_name: 'triage', ...prompt('Where do I find my invoice?') },
  repaired: { agent_name: 'reviewer', ...prompt('Review the last change') },
  retried: { agent_name: 'reviewer', ...prompt('Review it again') },
  failed: { agent_name: 'code-analyzer', ...prompt('Analyze src/') },
  lenient: { agent_name: 'invoices', parameters: { document: 'invoice-117.pdf', pages: 2 } },
  empty: { agent_name: 'invoices', parameters: { document: 'blank.pdf' } },
  escalated: { agent_name: 'planner', ...prompt('Nobody can log in') },
  delegated: { agent_name: 'lead', ...prompt('How long is poem.txt?') },
  orchestrated: { agent_name: 'team', ...prompt('Scan both files and summarize') },
  hostile: { agent_name: 'comments', ...prompt('Collect the comments') },
  large: { agent_name: 'export', ...prompt('everything') },
  broken: { agent_name: 'importer', ...prompt('measurements.csv') },
  unanswered: { agent_name: 'code-analyzer', ...prompt('Analyze tests/') },
};
