-- Windows by the names of other systems.
SELECT TUMBLE_START(ts, INTERVAL '1' HOUR) AS start, COUNT(*) AS n
FROM (SELECT CAST(ts AS TIMESTAMP) AS ts FROM 'data/events.jsonl')
GROUP BY TUMBLE(ts, INTERVAL '1' HOUR) ORDER BY start;
-- {"start": "2026-01-01T10:00:00.000Z", "n": 3}
-- {"start": "2026-01-01T11:00:00.000Z", "n": 1}
-- {"start": "2026-01-02T09:00:00.000Z", "n": 2}

SELECT COUNT(*) AS n FROM (
  SELECT 1 FROM (SELECT CAST(ts AS TIMESTAMP) AS ts FROM 'data/events.jsonl' WHERE id = 1)
  GROUP BY HOP(ts, INTERVAL '5' MINUTE, INTERVAL '10' MINUTE));
-- {"n": 2}

SELECT window.start AS start, COUNT(*) AS n FROM (SELECT CAST(ts AS TIMESTAMP) AS ts FROM 'data/events.jsonl' WHERE id < 3) GROUP BY window(ts, '1 hour');
-- {"start": "2026-01-01T10:00:00.000Z", "n": 2}
