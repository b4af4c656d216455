-- Type and shortened message of `error`, for lists. `error` itself may hold whole replies.
ALTER TABLE runs ADD COLUMN error_summary TEXT;
UPDATE runs SET error_summary = json_object(
    'type', json_extract(error, '$.type'),
    'message', substr(json_extract(error, '$.message'), 1, 500)
) WHERE error IS NOT NULL;
