-- Watched files of two formats, one statement for each sink; the last one reads what the first has written.
SELECT id, name, id * 2 AS twice FROM 'in/*.jsonl' WITH (watch = true, files_per_batch = 1)
WHERE id % 7 <> 0
INTO 'out/rows/*.parquet';

SELECT _metadata.filename AS file, id FROM 'in/*.csv' WITH (watch = true, files_per_batch = 2)
INTO 'out/csv/part={YYYY}/*.jsonl', 'out/names/*.csv';
