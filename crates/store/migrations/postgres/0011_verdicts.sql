-- The number of repairs of the accepted reply, and the retries that the contract allows; NULL without a contract. Both are
-- NULL for runs of earlier versions.
ALTER TABLE runs ADD COLUMN repairs BIGINT;
ALTER TABLE runs ADD COLUMN max_retries BIGINT;
-- The type of `error`, for filters.
ALTER TABLE runs ADD COLUMN error_type TEXT;
UPDATE runs SET error_type = error::json ->> 'type' WHERE error IS NOT NULL;
CREATE INDEX events_with_violations ON events (at) WHERE kind = 'validation_failed';
CREATE INDEX runs_by_end ON runs (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX runs_by_error ON runs (error_type, number) WHERE error_type IS NOT NULL;
CREATE INDEX sessions_by_agent ON sessions (agent_name, number);
