-- The statements of the PostgreSQL store for one run: one transaction per request, without pipelining. Update this file by
-- hand when crates/store/src/transactions changes. The server creates the ids, since pgbench has only numbers.
SELECT 'run_' || substr(md5(random()::text), 1, 12) AS run, 'ses_' || substr(md5(random()::text), 1, 12) AS session
\gset

-- POST /runs
BEGIN ISOLATION LEVEL READ COMMITTED;
INSERT INTO sessions (session_id, agent_name, parent_session_id, root_session_id, lineage, project_dir, last_seq, active_run_id, last_run_id, created_at, updated_at) VALUES (:session, 'reviewer', NULL, :session, '["reviewer"]', NULL, 1, :run, :run, (extract(epoch from clock_timestamp()) * 1000)::bigint, (extract(epoch from clock_timestamp()) * 1000)::bigint);
INSERT INTO runs (run_id, session_id, agent_name, type, status, mode, parent_session_id, parent_run_id, parent_call_id, start, start_seq, timeout_ms, pinned_to, created_at, available_at, deadline_at) VALUES (:run, :session, 'reviewer', 'start_session', 'pending', 'async_poll', NULL, NULL, NULL, NULL, 1, NULL, NULL, (extract(epoch from clock_timestamp()) * 1000)::bigint, CASE WHEN 1 IS NULL THEN NULL ELSE (extract(epoch from clock_timestamp()) * 1000)::bigint END, (SELECT deadline_at FROM runs WHERE run_id = NULL));
INSERT INTO events (session_id, seq, run_id, at, kind, body, transaction_id) VALUES (:session, 1, :run, (extract(epoch from clock_timestamp()) * 1000)::bigint, 'run_start', :start, GREATEST(pg_current_xact_id()::text::bigint, (SELECT b.transaction_id FROM events b WHERE b.session_id = :session AND b.seq = 0)));
COMMIT;

-- POST /runner/claim
BEGIN ISOLATION LEVEL READ COMMITTED;
WITH picked AS MATERIALIZED (SELECT run_id FROM runs WHERE available_at IS NOT NULL AND available_at <= (extract(epoch from clock_timestamp()) * 1000)::bigint AND (pinned_to = 'runner_1' OR (pinned_to IS NULL AND CAST(0 AS BIGINT) = 0)) ORDER BY available_at, number LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) UPDATE runs SET status = CASE WHEN is_stopping = 1 THEN 'stopping' ELSE 'claimed' END, available_at = NULL, runner_id = 'runner_1', token = token + 1, attempts = attempts + 1, appends = 0, lease_until = (extract(epoch from clock_timestamp()) * 1000)::bigint + 15000, started_at = COALESCE(started_at, (extract(epoch from clock_timestamp()) * 1000)::bigint), deadline_at = CASE WHEN timeout_ms IS NULL OR deadline_at <= (extract(epoch from clock_timestamp()) * 1000)::bigint + timeout_ms THEN deadline_at ELSE (extract(epoch from clock_timestamp()) * 1000)::bigint + timeout_ms END WHERE run_id IN (SELECT run_id FROM picked) RETURNING number, run_id, token, session_id, deadline_at - (extract(epoch from clock_timestamp()) * 1000)::bigint, is_stopping, (SELECT project_dir FROM sessions s WHERE s.session_id = runs.session_id), (SELECT line FROM sessions s WHERE s.session_id = runs.session_id);
SELECT transaction_id, e.position, e.seq, e.session_id, e.run_id, e.at, e.body FROM events e WHERE session_id = :session ORDER BY seq;
UPDATE runners SET seen_at = (extract(epoch from clock_timestamp()) * 1000)::bigint WHERE runner_id = 'runner_1' AND seen_at < (extract(epoch from clock_timestamp()) * 1000)::bigint - 1000;
COMMIT;

-- POST /runner/append, four times
BEGIN ISOLATION LEVEL READ COMMITTED;
UPDATE runs SET appends = 1, lease_until = (extract(epoch from clock_timestamp()) * 1000)::bigint + 15000, losses = CASE WHEN 0 = 1 THEN 0 ELSE losses END, status = CASE WHEN is_stopping = 1 THEN 'stopping' ELSE 'running' END WHERE run_id = :run AND token = 1 AND appends = 1 - 1 AND lease_until >= (extract(epoch from clock_timestamp()) * 1000)::bigint RETURNING session_id, is_stopping;
UPDATE sessions SET last_seq = last_seq + 1, updated_at = (extract(epoch from clock_timestamp()) * 1000)::bigint WHERE session_id = :session RETURNING last_seq;
INSERT INTO events (session_id, seq, run_id, at, kind, body, transaction_id) VALUES (:session, 2, :run, (extract(epoch from clock_timestamp()) * 1000)::bigint, 'attempt_started', :body0, GREATEST(pg_current_xact_id()::text::bigint, (SELECT b.transaction_id FROM events b WHERE b.session_id = :session AND b.seq = 1)));
COMMIT;
BEGIN ISOLATION LEVEL READ COMMITTED;
UPDATE runs SET appends = 2, lease_until = (extract(epoch from clock_timestamp()) * 1000)::bigint + 15000, losses = CASE WHEN 1 = 1 THEN 0 ELSE losses END, status = CASE WHEN is_stopping = 1 THEN 'stopping' ELSE 'running' END WHERE run_id = :run AND token = 1 AND appends = 2 - 1 AND lease_until >= (extract(epoch from clock_timestamp()) * 1000)::bigint RETURNING session_id, is_stopping;
UPDATE sessions SET last_seq = last_seq + 1, updated_at = (extract(epoch from clock_timestamp()) * 1000)::bigint WHERE session_id = :session RETURNING last_seq;
INSERT INTO events (session_id, seq, run_id, at, kind, body, transaction_id) VALUES (:session, 3, :run, (extract(epoch from clock_timestamp()) * 1000)::bigint, 'message', :body1, GREATEST(pg_current_xact_id()::text::bigint, (SELECT b.transaction_id FROM events b WHERE b.session_id = :session AND b.seq = 2)));
COMMIT;
BEGIN ISOLATION LEVEL READ COMMITTED;
UPDATE runs SET appends = 3, lease_until = (extract(epoch from clock_timestamp()) * 1000)::bigint + 15000, losses = CASE WHEN 1 = 1 THEN 0 ELSE losses END, status = CASE WHEN is_stopping = 1 THEN 'stopping' ELSE 'running' END WHERE run_id = :run AND token = 1 AND appends = 3 - 1 AND lease_until >= (extract(epoch from clock_timestamp()) * 1000)::bigint RETURNING session_id, is_stopping;
UPDATE sessions SET last_seq = last_seq + 1, updated_at = (extract(epoch from clock_timestamp()) * 1000)::bigint WHERE session_id = :session RETURNING last_seq;
INSERT INTO events (session_id, seq, run_id, at, kind, body, transaction_id) VALUES (:session, 4, :run, (extract(epoch from clock_timestamp()) * 1000)::bigint, 'post_tool', :body2, GREATEST(pg_current_xact_id()::text::bigint, (SELECT b.transaction_id FROM events b WHERE b.session_id = :session AND b.seq = 3)));
COMMIT;
BEGIN ISOLATION LEVEL READ COMMITTED;
UPDATE runs SET appends = 4, lease_until = (extract(epoch from clock_timestamp()) * 1000)::bigint + 15000, losses = CASE WHEN 1 = 1 THEN 0 ELSE losses END, status = CASE WHEN is_stopping = 1 THEN 'stopping' ELSE 'running' END WHERE run_id = :run AND token = 1 AND appends = 4 - 1 AND lease_until >= (extract(epoch from clock_timestamp()) * 1000)::bigint RETURNING session_id, is_stopping;
UPDATE sessions SET last_seq = last_seq + 1, updated_at = (extract(epoch from clock_timestamp()) * 1000)::bigint WHERE session_id = :session RETURNING last_seq;
INSERT INTO events (session_id, seq, run_id, at, kind, body, transaction_id) VALUES (:session, 5, :run, (extract(epoch from clock_timestamp()) * 1000)::bigint, 'message', :body3, GREATEST(pg_current_xact_id()::text::bigint, (SELECT b.transaction_id FROM events b WHERE b.session_id = :session AND b.seq = 4)));
COMMIT;

-- POST /runner/finish
BEGIN ISOLATION LEVEL READ COMMITTED;
SELECT number FROM runs WHERE run_id = (SELECT parent_run_id FROM runs WHERE run_id = :run) FOR NO KEY UPDATE;
SELECT run_id, session_id, status, mode, parent_session_id, parent_run_id, attempts, losses, token, appends, lease_until, is_stopping, stop_asked_at, deadline_at, CASE WHEN start IS NULL THEN 0 ELSE CAST(1 AS BIGINT) END, CASE WHEN finished_at IS NULL THEN 0 ELSE CAST(1 AS BIGINT) END, (extract(epoch from clock_timestamp()) * 1000)::bigint FROM runs WHERE run_id = :run FOR NO KEY UPDATE;
SELECT run_id FROM runs WHERE parent_run_id = :run AND mode = 'sync' AND finished_at IS NULL ORDER BY number;
UPDATE sessions SET last_seq = last_seq + 2, updated_at = (extract(epoch from clock_timestamp()) * 1000)::bigint, active_run_id = CASE WHEN active_run_id = :run THEN NULL ELSE active_run_id END WHERE session_id = :session RETURNING last_seq, active_run_id, agent_name;
INSERT INTO events (session_id, seq, run_id, at, kind, body, transaction_id) VALUES (:session, 6, :run, (extract(epoch from clock_timestamp()) * 1000)::bigint, 'result', :body4, GREATEST(pg_current_xact_id()::text::bigint, (SELECT b.transaction_id FROM events b WHERE b.session_id = :session AND b.seq = 5)));
INSERT INTO events (session_id, seq, run_id, at, kind, body, transaction_id) VALUES (:session, 7, :run, (extract(epoch from clock_timestamp()) * 1000)::bigint, 'run_completed', :body5, GREATEST(pg_current_xact_id()::text::bigint, (SELECT b.transaction_id FROM events b WHERE b.session_id = :session AND b.seq = 6)));
UPDATE runs SET status = 'completed', error = NULL, retry_count = 0, end_seq = 7, finished_at = (extract(epoch from clock_timestamp()) * 1000)::bigint, available_at = NULL, lease_until = NULL, runner_id = NULL, appends = COALESCE(5, appends), backend = NULL, escalations = 0, missing_submits = 0, input_tokens = 0, output_tokens = 0 WHERE run_id = :run;
SELECT run_id, start, error FROM runs WHERE session_id = :session AND start IS NOT NULL ORDER BY number FOR NO KEY UPDATE;
SELECT c.child_run_id, r.pinned_to FROM callbacks c JOIN runs r ON r.run_id = c.child_run_id WHERE c.parent_session_id = :session ORDER BY c.position;
COMMIT;
