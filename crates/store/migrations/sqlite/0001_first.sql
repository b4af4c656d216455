CREATE TABLE sessions (
    number            INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id        TEXT NOT NULL UNIQUE,
    agent_name        TEXT NOT NULL,
    parent_session_id TEXT,
    root_session_id   TEXT NOT NULL,
    lineage           TEXT NOT NULL,
    project_dir       TEXT,
    last_seq          INTEGER NOT NULL,
    active_run_id     TEXT,
    last_run_id       TEXT NOT NULL,
    created_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL
) STRICT;
CREATE INDEX sessions_by_parent ON sessions (parent_session_id) WHERE parent_session_id IS NOT NULL;
CREATE INDEX sessions_by_root ON sessions (root_session_id);

CREATE TABLE runs (
    number            INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id            TEXT NOT NULL UNIQUE,
    session_id        TEXT NOT NULL REFERENCES sessions (session_id),
    agent_name        TEXT NOT NULL,
    type              TEXT NOT NULL,
    status            TEXT NOT NULL,
    error             TEXT,
    retry_count       INTEGER NOT NULL DEFAULT 0,
    attempts          INTEGER NOT NULL DEFAULT 0,
    losses            INTEGER NOT NULL DEFAULT 0,
    mode              TEXT NOT NULL,
    parent_session_id TEXT,
    parent_run_id     TEXT,
    parent_call_id    TEXT,
    is_delivered      INTEGER NOT NULL DEFAULT 0,
    start             TEXT,
    start_seq         INTEGER,
    end_seq           INTEGER,
    timeout_ms        INTEGER,
    deadline_at       INTEGER,
    created_at        INTEGER NOT NULL,
    started_at        INTEGER,
    finished_at       INTEGER,
    available_at      INTEGER,
    pinned_to         TEXT,
    runner_id         TEXT,
    token             INTEGER NOT NULL DEFAULT 0,
    appends           INTEGER NOT NULL DEFAULT 0,
    lease_until       INTEGER,
    is_stopping       INTEGER NOT NULL DEFAULT 0,
    stop_asked_at     INTEGER
) STRICT;
CREATE INDEX runs_available ON runs (available_at, number) WHERE available_at IS NOT NULL;
CREATE INDEX runs_queued ON runs (session_id, number) WHERE start IS NOT NULL;
CREATE INDEX runs_by_status ON runs (status, number);
CREATE INDEX runs_by_session ON runs (session_id, number);
CREATE INDEX runs_by_agent ON runs (agent_name, number);
CREATE UNIQUE INDEX runs_by_call ON runs (parent_run_id, parent_call_id) WHERE parent_run_id IS NOT NULL;

CREATE TABLE events (
    position   INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id TEXT NOT NULL REFERENCES sessions (session_id),
    seq        INTEGER NOT NULL,
    run_id     TEXT NOT NULL,
    at         INTEGER NOT NULL,
    body       TEXT NOT NULL,
    UNIQUE (session_id, seq)
) STRICT;

CREATE TABLE callbacks (
    position          INTEGER PRIMARY KEY AUTOINCREMENT,
    parent_session_id TEXT NOT NULL,
    child_run_id      TEXT NOT NULL UNIQUE
) STRICT;
CREATE INDEX callbacks_by_parent ON callbacks (parent_session_id);

CREATE TABLE idempotency (
    key        TEXT PRIMARY KEY,
    body_hash  TEXT NOT NULL,
    run_id     TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX idempotency_by_run ON idempotency (run_id);

CREATE TABLE registry (
    kind       TEXT NOT NULL,
    name       TEXT NOT NULL,
    text       TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT;

CREATE TABLE tokens (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    token_id   TEXT NOT NULL UNIQUE,
    name       TEXT NOT NULL,
    scope      TEXT NOT NULL,
    hash       TEXT NOT NULL UNIQUE,
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE runners (
    runner_id     TEXT PRIMARY KEY,
    name          TEXT NOT NULL,
    slots         INTEGER NOT NULL,
    details       TEXT NOT NULL,
    registered_at INTEGER NOT NULL,
    seen_at       INTEGER NOT NULL
) STRICT;
