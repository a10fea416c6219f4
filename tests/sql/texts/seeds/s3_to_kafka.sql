-- Read historical data from S3, stream to Kafka for real-time processing
SELECT 
  user_id,
  event_type,
  properties,
  CURRENT_TIMESTAMP as replay_timestamp
FROM 's3://warehouse/user-events/2024-01/*.parquet'
WHERE event_type IN ('purchase', 'signup')
INTO 'kafka://localhost:9092/replayed-events'
WITH (
  rate_limit = 1000,  -- messages per second
  preserve_timestamps = false
);
