-- Targets: formats, modes, templates, partitions, several at once.
SELECT id, country FROM 'data/events.jsonl' INTO 'out/a/*.parquet';
-- ok

SELECT COUNT(*) AS n, COUNT(DISTINCT country) AS countries FROM 'out/a/*.parquet';
-- {"n": 6, "countries": 3}

SELECT id FROM 'data/events.jsonl' INTO 'out/a/*.parquet';
-- error: target-not-empty at 1:41
-- says: mode = 'append'

SELECT id, country FROM 'data/events.jsonl' WHERE id = 1 INTO 'out/a/*.parquet' WITH (mode = 'append');
-- ok

SELECT COUNT(*) AS n FROM 'out/a/*.parquet';
-- {"n": 7}

SELECT id, country FROM 'data/events.jsonl' WHERE id = 2 INTO 'out/a/*.parquet' WITH (mode = 'overwrite');
-- ok

SELECT * FROM 'out/a/*.parquet';
-- {"id": 2, "country": "DE"}

SELECT order_id, product FROM 'data/orders.csv' INTO 'out/one.csv';
-- ok

SELECT _metadata.filename AS file, order_id, product FROM 'out/*.csv' WHERE order_id > 101;
-- {"file": "one.csv", "order_id": 102, "product": "paper"}
-- {"file": "one.csv", "order_id": 103, "product": "pen"}

SELECT id, event, country FROM 'data/events.jsonl' INTO 'out/by/' WITH (format = 'parquet', partition_by = 'country');
-- ok

SELECT id, country FROM 'out/by/' WITH (format = 'parquet') WHERE country = 'DE';
-- {"id": 2, "country": "DE"}
-- {"id": 5, "country": "DE"}

SELECT id, CAST(ts AS TIMESTAMP) AS ts FROM 'data/events.jsonl' INTO 'out/days/date={YYYY-MM-DD}/*.json' WITH (timestamp_column = 'ts');
-- ok

SELECT id FROM 'out/days/date=2026-01-02/*.json';
-- {"id": 5}
-- {"id": 6}

-- One read, two sinks.
SELECT order_id, amount FROM 'data/orders.csv' INTO 'out/two/a.csv', 'out/two/b/*.parquet' WITH (compression = 'gzip');
-- ok

SELECT COUNT(*) AS n FROM (SELECT order_id FROM 'out/two/a.csv' INTERSECT SELECT order_id FROM 'out/two/b/*.parquet');
-- {"n": 4}

SELECT id, country FROM 'data/events.jsonl' INTO 'out/z/*.csv.gz';
-- ok

SELECT COUNT(*) AS n FROM 'out/z/*.csv.gz';
-- {"n": 6}

SELECT JSON_OBJECT('filename', _metadata.filename, 'row_number', _metadata.row_number, 'customer_id', customer_id, 'amount', CAST(amount as DECIMAL(10,2))) as enriched_record FROM 'data/orders.csv' INTO 'out/csv-backup/*.json';
-- ok

SELECT enriched_record.filename AS file, enriched_record.row_number AS n, enriched_record.amount AS amount FROM 'out/csv-backup/*.json' WHERE enriched_record.customer_id = 8;
-- {"file": "orders.csv", "n": 2, "amount": 7.25}
