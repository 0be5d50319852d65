-- The governance state of one site. Every table but the catalogue's is made from the control log: `kvctl audit reindex`
-- empties them and applies every event again. Times are TIMESTAMP in UTC. Keys on small tables only: an index on a table
-- that is deleted from costs twenty times the delete (and more than that when it breaks).
CREATE TABLE applied (size BIGINT NOT NULL);  -- events of the control log that these tables hold; one row

CREATE TABLE events (            -- an index of the control log
    idx BIGINT NOT NULL, ts TIMESTAMP NOT NULL, kind VARCHAR NOT NULL, actor VARCHAR NOT NULL, actor_tenant VARCHAR,
    tenant VARCHAR, outcome VARCHAR NOT NULL, data VARCHAR NOT NULL   -- data: JSON
);

-- Where things are, and whose.
CREATE TABLE entities (entity VARCHAR PRIMARY KEY, country VARCHAR NOT NULL, controlled_by VARCHAR NOT NULL, role VARCHAR NOT NULL);
CREATE TABLE sites (site VARCHAR PRIMARY KEY, country VARCHAR NOT NULL, entity VARCHAR NOT NULL);
CREATE TABLE site_versions (     -- the jurisdictions of a site through time; `sites` and `entities` have the newest
    site VARCHAR NOT NULL, country VARCHAR NOT NULL, entity VARCHAR NOT NULL, entity_country VARCHAR NOT NULL,
    controlled_by VARCHAR NOT NULL, valid_from TIMESTAMP NOT NULL, valid_to TIMESTAMP
);
CREATE TABLE places (            -- which site a store's tier is at; tier '*' means every tier not named
    store VARCHAR NOT NULL, tier VARCHAR NOT NULL, site VARCHAR NOT NULL, valid_from TIMESTAMP NOT NULL, valid_to TIMESTAMP
);
CREATE TABLE subprocessors (entity VARCHAR NOT NULL, tenant VARCHAR NOT NULL, country VARCHAR NOT NULL, notified TIMESTAMP, effective TIMESTAMP);

CREATE TABLE tenants (
    tenant VARCHAR PRIMARY KEY, entity VARCHAR NOT NULL, state VARCHAR NOT NULL,   -- active | suspended | offboarding | offboarded
    sla VARCHAR NOT NULL, quota_bytes BIGINT, requests_per_minute BIGINT, tokens_per_day BIGINT, max_concurrent INTEGER NOT NULL,
    require_subject VARCHAR NOT NULL, created_at TIMESTAMP NOT NULL, changed_at TIMESTAMP NOT NULL, reason VARCHAR NOT NULL
);
CREATE TABLE epochs (            -- keys are files of the key store; here is only that they exist
    tenant VARCHAR NOT NULL, domain VARCHAR NOT NULL, epoch VARCHAR NOT NULL, created_at TIMESTAMP NOT NULL, retired_at TIMESTAMP,
    destroying_at TIMESTAMP, destroyed_at TIMESTAMP, destroy_receipt VARCHAR   -- destroying_at: from then on it must go
);
CREATE TABLE api_keys (
    id VARCHAR PRIMARY KEY, tenant VARCHAR NOT NULL, domain VARCHAR NOT NULL, label VARCHAR NOT NULL, sha256 VARCHAR NOT NULL,
    created_at TIMESTAMP NOT NULL, created_by VARCHAR NOT NULL, expires_at TIMESTAMP NOT NULL, revoked_at TIMESTAMP
);
CREATE TABLE capabilities (      -- issued to connectors; what a revocation names
    id VARCHAR NOT NULL, tenant VARCHAR NOT NULL, domain VARCHAR NOT NULL, epoch VARCHAR NOT NULL, holder VARCHAR NOT NULL,
    issued_at TIMESTAMP NOT NULL, expires_at TIMESTAMP NOT NULL, revoked_at TIMESTAMP
);

-- Policies: a new version closes the one before; the one in force at any time is found by ASOF join.
CREATE TABLE residency_policies (
    tenant VARCHAR NOT NULL, version INTEGER NOT NULL, storage_countries VARCHAR[] NOT NULL, processing_countries VARCHAR[] NOT NULL,
    support_countries VARCHAR[] NOT NULL, valid_from TIMESTAMP NOT NULL, valid_to TIMESTAMP, approval VARCHAR, sha256 VARCHAR NOT NULL,
    controlled_by VARCHAR, change VARCHAR      -- any | same; initial | tightening | weakening | neutral
);
CREATE TABLE retention_policies (
    tenant VARCHAR NOT NULL, class VARCHAR NOT NULL, version INTEGER NOT NULL, minimum_s BIGINT NOT NULL, maximum_s BIGINT, idle_s BIGINT,
    valid_from TIMESTAMP NOT NULL, valid_to TIMESTAMP, approval VARCHAR, sha256 VARCHAR NOT NULL, change VARCHAR
);
CREATE TABLE holds (
    id VARCHAR PRIMARY KEY, tenant VARCHAR NOT NULL, domain VARCHAR, subject VARCHAR, model VARCHAR, reason VARCHAR NOT NULL,
    set_by VARCHAR NOT NULL, from_at TIMESTAMP NOT NULL, until_at TIMESTAMP, lifted_at TIMESTAMP, lift_approval VARCHAR
);

CREATE TABLE erasures (
    id VARCHAR PRIMARY KEY, tenant VARCHAR NOT NULL, scope VARCHAR NOT NULL,        -- tenant | domain | subject | model | time
    domain VARCHAR, subject VARCHAR, requested_by VARCHAR NOT NULL, received TIMESTAMP NOT NULL, due TIMESTAMP NOT NULL,
    closed TIMESTAMP, outcome VARCHAR NOT NULL,                                     -- open | erased | restricted | failed
    receipt VARCHAR, receipt_idx BIGINT,                                            -- receipt: JSON
    model VARCHAR, stored_from TIMESTAMP, stored_until TIMESTAMP
);

CREATE TABLE approvals (
    id VARCHAR PRIMARY KEY, kind VARCHAR NOT NULL, tenant VARCHAR, payload VARCHAR NOT NULL, payload_sha256 VARCHAR NOT NULL,
    impact VARCHAR NOT NULL, at_idx BIGINT NOT NULL, requester VARCHAR NOT NULL, required INTEGER NOT NULL, state VARCHAR NOT NULL,
    reason VARCHAR NOT NULL, created TIMESTAMP NOT NULL, expires TIMESTAMP NOT NULL, execute_by TIMESTAMP, decided TIMESTAMP,
    executed TIMESTAMP, executed_sha256 VARCHAR, executed_impact VARCHAR
);                               -- state: pending | approved | rejected | expired | executed | aborted
CREATE TABLE votes (
    approval VARCHAR NOT NULL, voter VARCHAR NOT NULL, role VARCHAR NOT NULL, decision VARCHAR NOT NULL, ts TIMESTAMP NOT NULL,
    payload_sha256 VARCHAR NOT NULL, fresh BOOLEAN NOT NULL, reason VARCHAR NOT NULL
);
CREATE TABLE decisions (         -- a row exists before every placement, move, replica, backup, restore, export
    id VARCHAR NOT NULL, ts TIMESTAMP NOT NULL, action VARCHAR NOT NULL, tenant VARCHAR, store VARCHAR, tier VARCHAR, site VARCHAR,
    country VARCHAR, policy_version INTEGER, verdict VARCHAR NOT NULL, rule VARCHAR NOT NULL, ref VARCHAR
);
CREATE TABLE moves (
    id VARCHAR PRIMARY KEY, tenant VARCHAR NOT NULL, approval VARCHAR NOT NULL, decision VARCHAR NOT NULL, store VARCHAR, source VARCHAR NOT NULL,
    target VARCHAR NOT NULL, model VARCHAR, kind VARCHAR, state VARCHAR NOT NULL,   -- proposed | running | returning | stopped | done | failed | rolled-back
    proposed_at TIMESTAMP NOT NULL, started_at TIMESTAMP, ended_at TIMESTAMP, moved BIGINT, bytes BIGINT, failed BIGINT, skipped BIGINT,
    source_removed_at TIMESTAMP, why VARCHAR
);

CREATE TABLE accounts (
    name VARCHAR PRIMARY KEY, roles VARCHAR[] NOT NULL, tenant VARCHAR, created TIMESTAMP NOT NULL, until_at TIMESTAMP, disabled TIMESTAMP,
    oidc_issuer VARCHAR, oidc_subject VARCHAR   -- the identity that signs in to it; NULL: its password does
);
CREATE TABLE backups (id VARCHAR NOT NULL, ts TIMESTAMP NOT NULL, label VARCHAR NOT NULL, expires_at TIMESTAMP NOT NULL, site VARCHAR NOT NULL);
CREATE TABLE engine_flushes (erasure VARCHAR NOT NULL, engine VARCHAR NOT NULL, answered BOOLEAN NOT NULL, ts TIMESTAMP NOT NULL, why VARCHAR NOT NULL);

-- The catalogue: what stores say they hold. Not from the log; re-read from the stores after a gap.
CREATE TABLE chunks (            -- one row a copy: a chunk on one tier of one store
    store VARCHAR NOT NULL, tier VARCHAR NOT NULL, tenant VARCHAR NOT NULL, domain VARCHAR NOT NULL, epoch VARCHAR NOT NULL,
    key BLOB NOT NULL, bytes BIGINT NOT NULL, subject VARCHAR, model VARCHAR NOT NULL, class VARCHAR NOT NULL,  -- common | conversation
    stored_at TIMESTAMP NOT NULL, expires_at TIMESTAMP, placed_at TIMESTAMP NOT NULL, used_at TIMESTAMP,
    removed_at TIMESTAMP, removed_why VARCHAR, sealed VARCHAR NOT NULL           -- sealed: the cipher, 'none' when there is none
);
CREATE TABLE lineage (tenant VARCHAR NOT NULL, domain VARCHAR NOT NULL, subject VARCHAR NOT NULL, key BLOB NOT NULL, first_seen TIMESTAMP NOT NULL);
CREATE TABLE sources (           -- who ships counted deltas or records, and how far they were taken in
    source VARCHAR PRIMARY KEY, boot VARCHAR NOT NULL, next BIGINT NOT NULL, seen_at TIMESTAMP NOT NULL, sent BIGINT NOT NULL,
    stored BIGINT NOT NULL, clock_ms DOUBLE NOT NULL, state VARCHAR NOT NULL, why VARCHAR NOT NULL
);
CREATE TABLE gaps (source VARCHAR NOT NULL, boot VARCHAR NOT NULL, from_n BIGINT NOT NULL, to_n BIGINT, noticed TIMESTAMP NOT NULL, cause VARCHAR NOT NULL);
CREATE TABLE comparisons (store VARCHAR NOT NULL, ts TIMESTAMP NOT NULL, catalogued BIGINT NOT NULL, found BIGINT NOT NULL, untracked BIGINT NOT NULL, missing BIGINT NOT NULL);
CREATE TABLE usage (             -- what gateways metered and stores moved
    ts TIMESTAMP NOT NULL, tenant VARCHAR NOT NULL, source VARCHAR NOT NULL, key_id VARCHAR, model VARCHAR, requests BIGINT NOT NULL,
    prompt_tokens BIGINT NOT NULL, cached_tokens BIGINT NOT NULL, output_tokens BIGINT NOT NULL, bytes_read BIGINT NOT NULL, bytes_written BIGINT NOT NULL,
    anonymous BIGINT NOT NULL,   -- requests that named no user
    unmetered BIGINT NOT NULL    -- requests of whose tokens the engine did not tell all: the sums are at least that
);
