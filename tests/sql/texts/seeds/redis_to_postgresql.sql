-- Read from Redis streams, persist to PostgreSQL
SELECT 
  JSON_EXTRACT(data, '$.user_id') as user_id,
  JSON_EXTRACT(data, '$.action') as action,
  JSON_EXTRACT(data, '$.timestamp') as event_time,
  CURRENT_TIMESTAMP as processed_at
FROM 'redis://localhost:6379/user-activity-stream'
INTO 'postgresql://localhost:5432/analytics.user_events'
WITH (
  batch_size = 1000,
  on_conflict = 'IGNORE'
);
