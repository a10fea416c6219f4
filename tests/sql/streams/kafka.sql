-- From a topic into files and, exactly once, into another topic.
SELECT id, name, _partition AS p FROM 'kafka://{kafka}/{topic}' WITH (max_rows_per_batch = 700)
WHERE id > 10
INTO 'out/topic/*.parquet', 'kafka://{kafka}/{topic}-out' WITH (delivery_guarantee = 'exactly_once', key = 'id');
