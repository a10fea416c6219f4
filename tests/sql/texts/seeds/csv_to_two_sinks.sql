-- Watch directory for new CSV files, write to both Kafka and S3
SELECT 
  JSON_OBJECT(
    'filename', _metadata.filename,
    'row_number', _metadata.row_number,
    'customer_id', customer_id,
    'amount', CAST(amount as DECIMAL(10,2))
  ) as enriched_record
FROM 'file:///data/incoming/*.csv'
WITH (watch = true, delete_after_read = true)
INTO 
  'kafka://localhost:9092/csv-ingestion',
  's3://archive/csv-backup/{YYYY}/{MM}/{DD}/*.json';
