-- State of one site. Small tables only; what a run did is in its journal, not here.
CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL, applied_at TIMESTAMPTZ NOT NULL);

-- One row a probe of a node: the raw document, so that a better parser can read it again.
CREATE TABLE IF NOT EXISTS observations (
    node VARCHAR NOT NULL,
    collected_at TIMESTAMPTZ NOT NULL,
    seconds DOUBLE,
    document VARCHAR,          -- NULL when the node could not be read
    error_code VARCHAR,
    error VARCHAR
);

-- One row a run of the checks.
CREATE TABLE IF NOT EXISTS check_runs (
    id BIGINT NOT NULL,
    checked_at TIMESTAMPTZ NOT NULL,
    inventory_sha256 VARCHAR NOT NULL,
    nodes VARCHAR[] NOT NULL
);
CREATE TABLE IF NOT EXISTS findings (
    check_run BIGINT NOT NULL,
    check_id VARCHAR NOT NULL,
    node VARCHAR NOT NULL,
    subject VARCHAR NOT NULL,
    verdict VARCHAR NOT NULL,
    severity VARCHAR NOT NULL,
    bad BOOLEAN NOT NULL,
    document VARCHAR NOT NULL  -- the finding as JSON
);

CREATE TABLE IF NOT EXISTS node_states (
    node VARCHAR PRIMARY KEY,
    role VARCHAR NOT NULL,
    state VARCHAR NOT NULL,    -- new | in-service | drained
    reason VARCHAR NOT NULL,
    since TIMESTAMPTZ NOT NULL
);

CREATE TABLE IF NOT EXISTS plans (
    id VARCHAR NOT NULL,
    created TIMESTAMPTZ NOT NULL,
    document VARCHAR NOT NULL
);
