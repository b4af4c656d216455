-- Type and shortened message of `error`, for lists. `error` itself may hold whole replies.
ALTER TABLE runs ADD COLUMN error_summary TEXT;
UPDATE runs SET error_summary = json_build_object(
    'type', error::json ->> 'type',
    'message', left(error::json ->> 'message', 500)
)::text WHERE error IS NOT NULL;
