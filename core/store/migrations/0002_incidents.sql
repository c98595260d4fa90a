-- closed_at repeats what the document says, for queries; 0: it stands.
CREATE TABLE incidents (
	id        BIGINT PRIMARY KEY,
	closed_at BIGINT NOT NULL,
	doc       TEXT NOT NULL
);
CREATE INDEX incidents_closed ON incidents (closed_at);
