-- What an event is, so that queries need not look into its body. Bodies begin with {"event_type":"KIND"; character 16
-- is the first of the kind.
ALTER TABLE events ADD COLUMN kind TEXT NOT NULL DEFAULT '';
UPDATE events SET kind = substr(body, 16, instr(substr(body, 16), '"') - 1);
