-- A row is a file in archive/, which holds the events with these numbers. They are not in the
-- table of events any more.
CREATE TABLE archives (
	last     BIGINT PRIMARY KEY,
	first    BIGINT NOT NULL,
	day      TEXT NOT NULL, -- in UTC, such as 2026-11-29: it names the file
	until_at BIGINT NOT NULL, -- the latest time of its events
	sum      TEXT NOT NULL
);

-- Which tasks the events of an archive are about.
CREATE TABLE archived_tasks (
	task BIGINT NOT NULL,
	last BIGINT NOT NULL, -- of archives
	PRIMARY KEY (task, last)
);
