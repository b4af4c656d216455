-- Requests that the gateway answered without a stored run. They are written in groups after their response.
CREATE TABLE gateway_requests (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    request_id TEXT NOT NULL,
    -- The API token that sent the request. NULL without a token.
    created_by TEXT,
    -- The model as the client named it.
    requested_model TEXT NOT NULL,
    -- The backend and the model of the last call. NULL if no call was made.
    backend TEXT,
    model TEXT,
    -- `completed` or `failed`.
    status TEXT NOT NULL,
    error_type TEXT,
    error_message TEXT,
    -- How the model was asked for JSON. NULL without a contract.
    strategy TEXT,
    has_contract BIGINT NOT NULL,
    is_streamed BIGINT NOT NULL,
    calls BIGINT NOT NULL,
    retry_count BIGINT NOT NULL,
    repairs BIGINT NOT NULL,
    escalations BIGINT NOT NULL,
    input_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    started_at BIGINT NOT NULL,
    finished_at BIGINT NOT NULL
);
CREATE INDEX gateway_requests_by_end ON gateway_requests (finished_at);
CREATE INDEX gateway_requests_by_creator ON gateway_requests (created_by, number) WHERE created_by IS NOT NULL;
-- The most requests and tokens per minute that the gateway accepts from a token. NULL without a limit.
ALTER TABLE tokens ADD COLUMN requests_per_minute BIGINT;
ALTER TABLE tokens ADD COLUMN tokens_per_minute BIGINT;
