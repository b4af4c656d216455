-- The API token that submitted a run or started a session. NULL without a token.
ALTER TABLE runs ADD COLUMN created_by TEXT;
ALTER TABLE sessions ADD COLUMN created_by TEXT;
CREATE INDEX sessions_by_creator ON sessions (created_by, number) WHERE created_by IS NOT NULL;
-- The API token that registered a runner. NULL without a token.
ALTER TABLE runners ADD COLUMN created_by TEXT;
-- The agents that a token may run, as a JSON array; NULL for all.
ALTER TABLE tokens ADD COLUMN agents TEXT;
ALTER TABLE tokens ADD COLUMN expires_at BIGINT;
-- 1 if the token may read what others created. Tokens of earlier versions could, and keep it.
ALTER TABLE tokens ADD COLUMN reads_all BIGINT NOT NULL DEFAULT 1;
