-- The model of a run's last call. NULL for runs of earlier versions and for programs.
ALTER TABLE runs ADD COLUMN model TEXT;
