-- What an event is, so that queries need not look into its body. Bodies begin with {"event_type":"KIND". Coordinators of
-- the version before cannot write from here on: their events have no kind.
ALTER TABLE events ADD COLUMN kind TEXT;
UPDATE events SET kind = split_part(body, '"', 4);
ALTER TABLE events ALTER COLUMN kind SET NOT NULL;
