-- Named sources, tables and views.
CREATE SOURCE readings (id BIGINT NOT NULL, amount DOUBLE,) WITH (connector = 'files', path = 'data/dirty.csv', on_error = 'skip') ROW FORMAT 'csv';
-- ok
-- says: created source readings

SELECT * FROM readings;
-- {"id": 1, "amount": 1.5}
-- {"id": 4, "amount": 4.5}

SELECT readings.id FROM readings WHERE readings.amount > 2;
-- {"id": 4}

SHOW SOURCES;
-- says: readings | 1

DESCRIBE readings;
-- says: id | BIGINT | false
-- says: amount | DOUBLE | true

CREATE SOURCE readings (id INT) WITH (connector = 'files', path = 'data/dirty.csv');
-- error: name-taken at 1:1
-- says: DROP SOURCE readings

CREATE OR REPLACE VIEW big AS SELECT id, amount FROM readings WHERE amount > 2;
-- ok

SELECT b.amount FROM big b;
-- {"amount": 4.5}

CREATE OR REPLACE VIEW big AS SELECT * FROM big;
-- error: view-cycle at 1:45
-- says: big -> big

CREATE VIEW IF NOT EXISTS big AS SELECT 1 AS one;
-- says: big is there already

SHOW VIEWS;
-- says: big | 1

CREATE TABLE out (id BIGINT, amount DOUBLE) WITH ('connector' = 'filesystem', 'path' = 'made/out', 'format' = 'parquet');
-- ok

INSERT INTO out SELECT id, amount FROM big;
-- ok

SELECT * FROM out;
-- {"id": 4, "amount": 4.5}

INSERT INTO out SELECT id, amount FROM readings;
-- error: target-not-empty at 1:13

INSERT INTO out SELECT id, amount FROM readings WITH (mode = 'append');
-- ok

SELECT COUNT(*) AS n FROM out;
-- {"n": 3}

INSERT INTO readings SELECT 1 AS id, 2.0 AS amount;
-- error: wrong-kind at 1:13
-- says: source 'readings' cannot be written to

CREATE SINK copied FROM readings WITH (connector = 'files', path = 'made/copied/', format = 'json');
-- ok

SELECT * FROM 'made/copied/*.json' WHERE id = 1;
-- {"id": 1, "amount": 1.5}

CREATE SINK doubled AS SELECT id * 2 AS id FROM readings WITH (connector = 'files', path = 'made/doubled/', format = 'csv');
-- ok

SELECT SUM(id) AS ids FROM 'made/doubled/';
-- {"ids": 10}

SHOW PIPELINES;
-- says: copied
-- says: doubled

DROP VIEW big;
-- says: dropped view big

DROP VIEW big;
-- error: unknown-name at 1:1

DROP VIEW IF EXISTS big;
-- says: there is no view big

DROP SOURCE reading;
-- error: unknown-name at 1:1
-- says: did you mean 'readings'?

EXPLAIN SELECT id FROM readings INTO 'made/x.parquet' WITH (compression = 'zstd');
-- says: write made/x.parquet (files parquet)
-- says: compression = zstd

SET spark.sql.shuffle.partitions = 3;
-- says: spark.sql.shuffle.partitions = 3

SET streams = 'memory:';
-- ok
