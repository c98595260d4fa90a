-- The place of each event in a distributed trace, as a traceparent; '': none.
ALTER TABLE events ADD COLUMN trace TEXT NOT NULL DEFAULT '';
