-- The person who reported in the actor's name; '': the actor did.
ALTER TABLE events ADD COLUMN actor_via TEXT NOT NULL DEFAULT '';
