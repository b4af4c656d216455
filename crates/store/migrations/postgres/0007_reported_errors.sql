-- 1 if the run's result is a universal response that reports an error. NULL for runs that ended before this migration.
ALTER TABLE runs ADD COLUMN is_reported_error BIGINT;
