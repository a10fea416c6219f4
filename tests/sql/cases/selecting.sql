-- What Spark SQL can do works unchanged over a file.
SELECT id, amount FROM 'data/events.jsonl' WHERE amount > 100;
-- {"id": 1, "amount": 120.5}
-- {"id": 5, "amount": 300.25}

SELECT * FROM 'data/orders.csv' WHERE order_id = 100;
-- {"order_id": 100, "customer_id": 7, "product": "pen", "amount": 12.5, "ordered": "2026-01-01"}

SELECT country, COUNT(*) AS n, SUM(amount) AS total FROM 'data/events.jsonl' GROUP BY country ORDER BY country;
-- {"country": "CH", "n": 3, "total": 120.5}
-- {"country": "DE", "n": 2, "total": 300.25}
-- {"country": "FR", "n": 1}

-- Column names are those that Spark gives to what was written.
SELECT nvl(amount, 0), upper(country) FROM 'data/events.jsonl' WHERE id = 4;
-- {"nvl(amount, 0)": 0.0, "upper(country)": "FR"}

WITH big AS (SELECT * FROM 'data/orders.csv' WHERE amount > 10)
SELECT b.product, COUNT(*) AS n FROM big b GROUP BY b.product;
-- {"product": "pen", "n": 2}

SELECT c.name, o.product
FROM 'data/orders.csv' o
JOIN 'data/customers.csv' c ON o.customer_id = c.customer_id
WHERE o.amount < 10;
-- {"name": "Charles Babbage", "product": "ink"}
-- {"name": "Ada \"the first\" Lovelace", "product": "paper"}

SELECT o.order_id, c.name FROM 'data/orders.csv' AS o LEFT JOIN 'data/customers.csv' AS c USING (customer_id) WHERE c.name IS NULL;
-- {"order_id": 103}

SELECT id FROM 'data/events.jsonl' WHERE user_id IN (SELECT customer_id FROM 'data/customers.csv' WHERE segment = 'gold');
-- {"id": 1}
-- {"id": 3}
-- {"id": 6}

SELECT id, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY ts DESC) AS newest FROM 'data/events.jsonl' WHERE user_id = 7;
-- {"id": 6, "newest": 1}
-- {"id": 3, "newest": 2}
-- {"id": 1, "newest": 3}

SELECT customer_id FROM 'data/customers.csv' UNION SELECT customer_id FROM 'data/orders.csv' ORDER BY customer_id;
-- {"customer_id": 7}
-- {"customer_id": 8}
-- {"customer_id": 9}
-- {"customer_id": 11}

SELECT id, transform(data.tags, t -> upper(t)) AS tags FROM 'data/events.jsonl' WHERE size(data.tags) > 1;
-- {"id": 1, "tags": ["X", "Y"]}
-- {"id": 6, "tags": ["Y", "Z"]}

SELECT id, tag FROM 'data/events.jsonl' LATERAL VIEW explode(data.tags) exploded AS tag WHERE id = 6;
-- {"id": 6, "tag": "y"}
-- {"id": 6, "tag": "z"}

SELECT * EXCEPT (data, ts, country) FROM 'data/events.jsonl' WHERE id = 2;
-- {"id": 2, "user_id": 8, "event": "view", "amount": 0.0}

SELECT CAST(amount AS DECIMAL(10, 1)) AS a, amount::STRING AS s FROM 'data/orders.csv' WHERE order_id = 101;
-- {"a": 7.3, "s": "7.25"}

SELECT CASE WHEN amount IS NULL THEN 'none' ELSE 'some' END AS has, COUNT(*) AS n FROM 'data/events.jsonl' GROUP BY ALL;
-- {"has": "none", "n": 1}
-- {"has": "some", "n": 5}

SELECT "double quotes are strings" AS a, 'it''s' AS b, r'raw\n' AS c;
-- {"a": "double quotes are strings", "b": "it's", "c": "raw\\n"}

SELECT 1 AS one /* a comment; with a semicolon */ -- and another; one
;
-- {"one": 1}

SELECT event, pen, ink FROM (SELECT 'x' AS event, product, amount FROM 'data/orders.csv') PIVOT (SUM(amount) FOR product IN ('pen' AS pen, 'ink' AS ink));
-- {"event": "x", "pen": 112.49, "ink": 7.25}
