-- Times are microseconds since 1970, 0: never. Names of agents are folded
-- (pipeline.FoldName) in columns that end with _key. Documents are JSON.
-- SQLite reads BIGINT as INTEGER, see dialect.go.

CREATE TABLE meta (
	key   TEXT PRIMARY KEY,
	value TEXT NOT NULL
);

-- Numbers of events follow one another without a gap, in the order of commits.
CREATE TABLE counters (
	name  TEXT PRIMARY KEY,
	value BIGINT NOT NULL
);
INSERT INTO counters (name, value) VALUES ('events', 0);

CREATE TABLE events (
	seq        BIGINT PRIMARY KEY,
	id         TEXT NOT NULL, -- a ULID
	type       TEXT NOT NULL,
	version    BIGINT NOT NULL, -- of the form of this type's payload
	code       TEXT NOT NULL, -- of the specification; '': it has none
	at         BIGINT NOT NULL,
	task       BIGINT NOT NULL, -- 0: of an agent
	agent      TEXT NOT NULL,
	agent_key  TEXT NOT NULL,
	actor_kind TEXT NOT NULL,
	actor      TEXT NOT NULL,
	cause      TEXT NOT NULL, -- the id of the command
	payload    TEXT NOT NULL
);
CREATE INDEX events_task ON events (task, seq);
CREATE INDEX events_agent ON events (agent_key, seq);
CREATE INDEX events_type ON events (type, seq);

-- The columns of a task repeat what its document says, for queries.
CREATE TABLE tasks (
	id           BIGINT PRIMARY KEY,
	version      BIGINT NOT NULL,
	status       TEXT NOT NULL,
	agent_key    TEXT NOT NULL,
	dispatch_key TEXT NOT NULL, -- the agent of the present dispatch; '': none
	row_id       TEXT NOT NULL,
	live         BIGINT NOT NULL, -- 1: not over, or its row stands on the board
	on_board     BIGINT NOT NULL, -- 1: the task and all its steps have rows
	doc          TEXT NOT NULL
);
CREATE INDEX tasks_live ON tasks (id) WHERE live = 1;
CREATE INDEX tasks_row ON tasks (row_id) WHERE row_id <> '';

CREATE TABLE agents (
	name_key TEXT PRIMARY KEY,
	doc      TEXT NOT NULL
);

CREATE TABLE wakes (
	key       TEXT PRIMARY KEY,
	task      BIGINT NOT NULL, -- that holds the wake
	agent_key TEXT NOT NULL,
	asked_at  BIGINT NOT NULL
);
CREATE INDEX wakes_agent ON wakes (agent_key, asked_at);

CREATE TABLE commands (
	id   TEXT PRIMARY KEY,
	task BIGINT NOT NULL,
	at   BIGINT NOT NULL,
	sum  TEXT NOT NULL, -- of its content; '': not known
	file TEXT NOT NULL  -- the name of the drop; '': it was none
);

-- A row says that a sink does not have a task as it is.
CREATE TABLE outbox (
	task        BIGINT NOT NULL,
	sink        TEXT NOT NULL,
	place       BIGINT NOT NULL, -- of the sink in the order of sinks
	wanted      BIGINT NOT NULL, -- version of the task; 0: settled while somebody leases it
	since       BIGINT NOT NULL,
	due         BIGINT NOT NULL,
	tries       BIGINT NOT NULL,
	asked_at    BIGINT NOT NULL,
	code        TEXT NOT NULL,
	error       TEXT NOT NULL,
	lease_owner TEXT NOT NULL, -- '': nobody
	lease_until BIGINT NOT NULL,
	PRIMARY KEY (task, sink)
);
