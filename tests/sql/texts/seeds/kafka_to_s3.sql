-- Read from Kafka, write to S3 Parquet files
SELECT 
  customer_id,
  transaction_id,
  amount,
  timestamp
FROM 'kafka://localhost:9092/transactions'
WHERE amount > 100.00
INTO 's3://data-lake/high-value-transactions/date={YYYY-MM-DD}/*.parquet'
WITH (
  format = 'parquet',
  compression = 'snappy',
  partition_by = 'date',
  batch_size = 10000,
  batch_timeout = '5 minutes'
);
