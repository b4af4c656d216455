-- Replies that lead to the next tier violate their contract too.
DROP INDEX events_with_violations;
CREATE INDEX events_with_violations ON events (at) WHERE kind IN ('validation_failed', 'escalated');
