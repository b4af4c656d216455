-- What a run's last events say of how it came to its end. Runs that ended before have nothing there.
ALTER TABLE runs
    ADD COLUMN backend TEXT,
    ADD COLUMN escalations BIGINT,
    ADD COLUMN missing_submits BIGINT,
    ADD COLUMN input_tokens BIGINT,
    ADD COLUMN output_tokens BIGINT;
