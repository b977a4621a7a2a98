-- Version 1. Times are epoch milliseconds. Codes are those of duebook_core: State, Reason, Priority.
-- For people: the views at the end speak in words.

CREATE TABLE meta (
  name  TEXT PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE queues (
  id       INTEGER PRIMARY KEY,
  name     TEXT NOT NULL UNIQUE,
  settings TEXT NOT NULL
);

-- Rows are appended: ids are in time order. Ended rows stay where they are until the janitor deletes them.
-- What bounds this store is the number of distinct pages that a transaction touches, so a change of state
-- touches the task's own page and otherwise only pages that are hot anyway: the index on keys never changes
-- (of the tasks with one key only the newest can be live; the writer sees to that before each insert), and the
-- trail is appended, each entry naming the one before it; `trail_head` is the last.
CREATE TABLE tasks (
  id               INTEGER PRIMARY KEY,
  queue            INTEGER NOT NULL,
  key              TEXT    NOT NULL,
  state            INTEGER NOT NULL CHECK (state BETWEEN 0 AND 4),
  due_ms           INTEGER NOT NULL,
  priority         INTEGER NOT NULL,
  attempt          INTEGER NOT NULL CHECK (attempt >= 0),
  seq              INTEGER NOT NULL CHECK (seq >= 1),
  created_ms       INTEGER NOT NULL,
  committed_ms     INTEGER NOT NULL,
  boot             INTEGER,
  token            INTEGER,
  until_ms         INTEGER,
  cancel_requested INTEGER NOT NULL DEFAULT 0,
  fired_ms         INTEGER,
  started_ms       INTEGER,
  finished_ms      INTEGER,
  retry            TEXT,
  last_error       TEXT,
  trail_head       INTEGER NOT NULL,
  trace_id         TEXT,
  payload          TEXT,
  CHECK (CASE WHEN state = 1
    THEN token IS NOT NULL AND boot IS NOT NULL AND until_ms IS NOT NULL AND finished_ms IS NULL
    ELSE token IS NULL AND boot IS NULL AND until_ms IS NULL AND cancel_requested = 0
         AND (state >= 2) = (finished_ms IS NOT NULL) END)
);
CREATE INDEX tasks_key     ON tasks (queue, key);
CREATE INDEX tasks_due     ON tasks (queue, due_ms, priority) WHERE state = 0;
CREATE INDEX tasks_running ON tasks (boot) WHERE state = 1;
CREATE INDEX tasks_ended   ON tasks (queue, state, due_ms) WHERE state >= 2;

-- The edges of the state machine once more, as a last defence.
CREATE TABLE trail (
  id         INTEGER PRIMARY KEY,
  prev       INTEGER,
  task       INTEGER NOT NULL,
  seq        INTEGER NOT NULL,
  at_ms      INTEGER NOT NULL,
  from_state INTEGER,
  to_state   INTEGER NOT NULL,
  reason     INTEGER NOT NULL,
  attempt    INTEGER NOT NULL,
  due_ms     INTEGER NOT NULL,
  started_ms INTEGER,
  actor      TEXT,
  detail     TEXT,
  trace_id   TEXT,
  CHECK ((prev IS NULL) = (seq = 1)),
  -- As bits, not as IN lists: those are built anew for each row. 19 is pending, running, cancelled.
  CHECK (CASE from_state
    WHEN 0 THEN (19 >> to_state) & 1
    WHEN 1 THEN to_state <= 3
    WHEN 3 THEN to_state = 0
    ELSE from_state IS NULL AND to_state = 0 END)
);

CREATE TABLE counts (
  queue INTEGER NOT NULL,
  state INTEGER NOT NULL,
  n     INTEGER NOT NULL CHECK (n >= 0),
  PRIMARY KEY (queue, state)
) WITHOUT ROWID;

CREATE TABLE recurring (
  name       TEXT PRIMARY KEY,
  queue      INTEGER NOT NULL,
  cron       TEXT,
  timezone   TEXT,
  every_ms   INTEGER,
  anchor_ms  INTEGER NOT NULL,
  payload    TEXT,
  catch_up   TEXT NOT NULL CHECK (catch_up IN ('one', 'all', 'skip')),
  next_ms    INTEGER,
  updated_ms INTEGER NOT NULL,
  CHECK ((cron IS NULL) != (every_ms IS NULL))
) WITHOUT ROWID;

CREATE TABLE api_keys (
  id         TEXT PRIMARY KEY,
  hash       TEXT NOT NULL UNIQUE,
  name       TEXT NOT NULL,
  scopes     TEXT NOT NULL,
  queues     TEXT NOT NULL,
  created_ms INTEGER NOT NULL,
  revoked_ms INTEGER
) WITHOUT ROWID;

CREATE VIEW tasks_in_words AS
SELECT t.id, q.name AS queue, t.key,
       CASE t.state WHEN 0 THEN 'pending' WHEN 1 THEN 'running' WHEN 2 THEN 'succeeded'
                    WHEN 3 THEN 'dead' ELSE 'cancelled' END AS state,
       strftime('%Y-%m-%dT%H:%M:%fZ', t.due_ms / 1000.0, 'unixepoch') AS due,
       t.attempt, t.last_error, t.payload
FROM tasks t JOIN queues q ON q.id = t.queue;
