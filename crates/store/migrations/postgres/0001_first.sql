CREATE TABLE sessions (
    number            BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session_id        TEXT NOT NULL UNIQUE,
    agent_name        TEXT NOT NULL,
    parent_session_id TEXT,
    root_session_id   TEXT NOT NULL,
    lineage           TEXT NOT NULL,
    project_dir       TEXT,
    last_seq          BIGINT NOT NULL,
    active_run_id     TEXT,
    last_run_id       TEXT NOT NULL,
    created_at        BIGINT NOT NULL,
    updated_at        BIGINT NOT NULL
) WITH (
    -- Free space on each page keeps row updates on the same page (HOT); early vacuum removes dead rows.
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 1
);
CREATE INDEX sessions_by_parent ON sessions (parent_session_id) WHERE parent_session_id IS NOT NULL;
CREATE INDEX sessions_by_root ON sessions (root_session_id);

CREATE TABLE runs (
    number            BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id            TEXT NOT NULL UNIQUE,
    session_id        TEXT NOT NULL REFERENCES sessions (session_id),
    agent_name        TEXT NOT NULL,
    type              TEXT NOT NULL,
    status            TEXT NOT NULL,
    error             TEXT,
    retry_count       BIGINT NOT NULL DEFAULT 0,
    attempts          BIGINT NOT NULL DEFAULT 0,
    losses            BIGINT NOT NULL DEFAULT 0,
    mode              TEXT NOT NULL,
    parent_session_id TEXT,
    parent_run_id     TEXT,
    parent_call_id    TEXT,
    is_delivered      BIGINT NOT NULL DEFAULT 0,
    start             TEXT,
    start_seq         BIGINT,
    end_seq           BIGINT,
    timeout_ms        BIGINT,
    deadline_at       BIGINT,
    created_at        BIGINT NOT NULL,
    started_at        BIGINT,
    finished_at       BIGINT,
    available_at      BIGINT,
    pinned_to         TEXT,
    runner_id         TEXT,
    token             BIGINT NOT NULL DEFAULT 0,
    appends           BIGINT NOT NULL DEFAULT 0,
    lease_until       BIGINT,
    is_stopping       BIGINT NOT NULL DEFAULT 0,
    stop_asked_at     BIGINT
) WITH (
    -- Free space on each page keeps row updates on the same page (HOT); early vacuum removes dead rows.
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 1
);
CREATE INDEX runs_available ON runs (available_at, number) WHERE available_at IS NOT NULL;
CREATE INDEX runs_queued ON runs (session_id, number) WHERE start IS NOT NULL;
CREATE INDEX runs_by_status ON runs (status, number);
CREATE INDEX runs_by_session ON runs (session_id, number);
CREATE INDEX runs_by_agent ON runs (agent_name, number);
CREATE UNIQUE INDEX runs_by_call ON runs (parent_run_id, parent_call_id) WHERE parent_run_id IS NOT NULL;

CREATE TABLE events (
    position   BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session_id TEXT NOT NULL REFERENCES sessions (session_id),
    seq        BIGINT NOT NULL,
    run_id     TEXT NOT NULL,
    at         BIGINT NOT NULL,
    body       TEXT NOT NULL,
    -- Transactions become visible out of order, so readers need to know which ones have ended.
    transaction_id BIGINT NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
    UNIQUE (session_id, seq)
);
CREATE INDEX events_by_transaction ON events (transaction_id, position);

CREATE TABLE callbacks (
    position          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    parent_session_id TEXT NOT NULL,
    child_run_id      TEXT NOT NULL UNIQUE
);
CREATE INDEX callbacks_by_parent ON callbacks (parent_session_id);

CREATE TABLE idempotency (
    key        TEXT PRIMARY KEY,
    body_hash  TEXT NOT NULL,
    run_id     TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX idempotency_by_run ON idempotency (run_id);

CREATE TABLE registry (
    kind       TEXT NOT NULL,
    name       TEXT NOT NULL,
    text       TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (kind, name)
);

CREATE TABLE tokens (
    number     BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    token_id   TEXT NOT NULL UNIQUE,
    name       TEXT NOT NULL,
    scope      TEXT NOT NULL,
    hash       TEXT NOT NULL UNIQUE,
    created_at BIGINT NOT NULL
);

CREATE TABLE runners (
    runner_id     TEXT PRIMARY KEY,
    name          TEXT NOT NULL,
    slots         BIGINT NOT NULL,
    details       TEXT NOT NULL,
    registered_at BIGINT NOT NULL,
    seen_at       BIGINT NOT NULL
);
