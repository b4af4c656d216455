-- Set on callback runs: the run whose children have ended.
ALTER TABLE runs ADD COLUMN continues_run_id TEXT;
CREATE INDEX runs_by_continued ON runs (continues_run_id) WHERE continues_run_id IS NOT NULL;
