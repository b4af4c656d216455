-- Statistics from a run's final events. NULL for runs that ended before this migration.
ALTER TABLE runs
    ADD COLUMN backend TEXT,
    ADD COLUMN escalations BIGINT,
    ADD COLUMN missing_submits BIGINT,
    ADD COLUMN input_tokens BIGINT,
    ADD COLUMN output_tokens BIGINT;
