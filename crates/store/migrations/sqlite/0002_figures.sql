-- Statistics from a run's final events. NULL for runs that ended before this migration.
ALTER TABLE runs ADD COLUMN backend TEXT;
ALTER TABLE runs ADD COLUMN escalations INTEGER;
ALTER TABLE runs ADD COLUMN missing_submits INTEGER;
ALTER TABLE runs ADD COLUMN input_tokens INTEGER;
ALTER TABLE runs ADD COLUMN output_tokens INTEGER;
