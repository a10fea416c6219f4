-- Two streams in one statement, joined with a table.
SELECT s.id, s.name, t.city
FROM (
  SELECT id, name FROM 'in/*.jsonl' WITH (watch = true, files_per_batch = 1)
  UNION ALL
  SELECT id, name FROM 'in/*.csv' WITH (watch = true, files_per_batch = 1)
) s
LEFT JOIN 'table.csv' t ON s.id = t.id
INTO 'out/joined/*.parquet', 'out/lines/*.jsonl';
