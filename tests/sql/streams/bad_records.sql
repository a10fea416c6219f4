-- Bad records are kept, once each.
CREATE OR REPLACE SOURCE dirty (id BIGINT, name STRING)
WITH (connector = 'files', path = 'in/*.jsonl', watch = true, files_per_batch = 1,
  on_error = 'dead_letter', dead_letter = 'out/letters/*.parquet');

SELECT id, name FROM dirty WHERE id IS NOT NULL INTO 'out/good/*.parquet';
