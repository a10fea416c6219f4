-- Formats, by ending and by option.
SELECT * FROM 'data/semi.csv' WITH (delimiter = ';');
-- {"id": 1, "word": "alpha"}
-- {"id": 2, "word": "beta"}

SELECT * FROM 'data/tabs.tsv';
-- {"id": 1, "word": "a b"}
-- {"id": 2, "word": "c"}

SELECT * FROM 'data/bare.csv' WITH (header = false);
-- {"_c0": 1, "_c1": "one"}
-- {"_c0": 2, "_c1": "two"}

SELECT * FROM 'data/multi.csv' WITH (multiline = true);
-- {"id": 1, "note": "two\nlines"}
-- {"id": 2, "note": "plain"}

SELECT * FROM 'data/nested.json' WITH (multiline = true) WHERE id = 2;
-- {"id": 2, "name": "two"}

SELECT value FROM 'data/notes.txt';
-- {"value": "first line"}
-- {"value": "second line"}

SELECT length FROM 'data/notes.txt' WITH (format = 'binary');
-- {"length": 23}

SELECT name FROM 'data/customers.csv' WHERE segment IS NULL;
-- {"name": "Charles Babbage"}

-- A glob over several files, and columns that describe the file of a row.
SELECT _metadata.filename AS file, COUNT(*) AS n FROM 'data/{orders,customers}.csv' WITH (schema_file = 'data/one.avsc') GROUP BY ALL;
-- error: schema-file
-- says: data/one.avsc

SELECT _metadata.filename AS file, _metadata.row_number AS line, word FROM 'data/*.tsv';
-- {"file": "tabs.tsv", "line": 1, "word": "a b"}
-- {"file": "tabs.tsv", "line": 2, "word": "c"}

SELECT *, _metadata.row_number AS n FROM 'data/tabs.tsv' WHERE id = 2;
-- {"id": 2, "word": "c", "n": 2}

SELECT _metadata.row_number AS n, id FROM 'data/events.jsonl' WHERE event = 'refund';
-- {"n": 6, "id": 6}

SELECT _metadata.size AS size, _metadata.path LIKE '%/data/notes.txt' AS there FROM 'data/notes.txt' LIMIT 1;
-- {"size": 23, "there": true}

SELECT id, amount FROM 'data/dirty.jsonl' WITH (schema_file = 'data/readings.avsc', on_error = 'skip');
-- {"id": 1, "amount": 1.5}
-- {"id": 4, "amount": 4.5}

SELECT COUNT(*) AS n FROM 'datagen://orders?rows=250&seed=3';
-- {"n": 250}
