-- What a run's last events say of how it came to its end. Runs that ended before have nothing there.
ALTER TABLE runs ADD COLUMN backend TEXT;
ALTER TABLE runs ADD COLUMN escalations INTEGER;
ALTER TABLE runs ADD COLUMN missing_submits INTEGER;
ALTER TABLE runs ADD COLUMN input_tokens INTEGER;
ALTER TABLE runs ADD COLUMN output_tokens INTEGER;
