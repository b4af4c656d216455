-- The run whose children a callback reports on: the callback's run goes on with what that run began.
ALTER TABLE runs ADD COLUMN continues_run_id TEXT;
CREATE INDEX runs_by_continued ON runs (continues_run_id) WHERE continues_run_id IS NOT NULL;
