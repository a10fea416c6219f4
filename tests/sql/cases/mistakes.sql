-- What is wrong is said with its place and a way out, and nothing is written.
SELECT * FROM 'data/semi.csv' WITH (delimeter = ';');
-- error: unknown-option at 2:37
-- says: did you mean 'delimiter'?

SELECT * FROM 'data/orders.csv' WITH (header = 'perhaps');
-- error: bad-option at 1:39

SELECT * FROM 'data/missing.csv';
-- error: missing-file at 1:15

SELECT * FROM 'fyle:///data/x.csv';
-- error: no-connector at 1:15
-- says: did you mean 'file'?

SELECT * FROM 'pulsar://localhost:6650/orders';
-- error: no-connector at 1:15

SELECT * FROM 'kafka://localhost:1/orders';
-- error: broker-unreachable at 1:15
-- says: localhost:1

SELECT * FROM orders;
-- error: unknown-name at 1:15
-- says: streams: kafka://broker:9092

SELECT idd FROM 'data/events.jsonl';
-- error: unresolved-column at 1:8
-- says: columns there

SELECT id,
       missing_function(id)
FROM 'data/events.jsonl';
-- error: unresolved-routine at 2:8

SELECT id FROM 'data/events.jsonl' INTO 'out/somewhere/';
-- error: no-format at 1:41
-- says: set format to one of

SELECT * FROM 'data/notes.txt' WITH (format = 'cvs');
-- error: unknown-format at 1:38
-- says: did you mean 'csv'?

SELECT id, FROM 'data/events.jsonl' WHERE;
-- error: syntax

SELECT * FROM 'data/events.jsonl' WITH (format = 'json', format = 'csv');
-- error: duplicate-option at 1:58

SELECT 'unfinished FROM x;
-- error: unterminated at 1:8

SELECT id, amount FROM 'data/dirty.jsonl' WITH (schema_file = 'data/readings.avsc') INTO 'out/never/*.parquet';
-- error: bad-record
-- says: dirty.jsonl:2
-- says: on_error = 'skip'

SELECT * FROM 'data/dirty.csv' WITH (schema_file = 'data/readings.avsc') INTO 'out/never/*.parquet';
-- error: bad-record
-- says: dirty.csv:3

SELECT COUNT(*) FROM 'out/never/*.parquet';
-- error: missing-file

SELECT * FROM 'data/notes.txt' WITH (format = 'parquet');
-- error: bad-file

SELECT CAST(word AS INT) AS n FROM 'data/tabs.tsv' INTO 'out/never/*.csv';
-- error: bad-value
-- says: try_cast

SELECT * FROM 'data/${env:PENSTOCK_UNSET}.csv';
-- error: secret-not-set at 1:21

DELETE FROM orders;
-- error: unsupported-statement at 1:1

CREATE SOURCE CONNECTOR source01 FROM mysql WITH ("host" = "mysql-s1", "port" = 3306, "user" = "root", "password" = "password", "database" = "d1", "table" = "person", "stream" = "stream01");
-- error: not-in-this-version at 1:1

PAUSE CONNECTOR source01;
-- error: not-in-this-version at 1:1

RESTART PIPELINE p;
-- error: not-in-this-version at 1:1

SET colour = 'blue';
-- error: unknown-setting

CREATE SOURCE s (id INT) WITH (topic = 't');
-- error: no-connector at 1:1

SELECT id FROM 'data/events.jsonl' INTO 'https://localhost/x.json';
-- error: not-a-sink at 1:41
