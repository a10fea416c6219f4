-- JSON operators of other dialects.
SELECT id, to_json(data)->>'a' AS a FROM 'data/events.jsonl' WHERE id <= 2;
-- {"id": 1, "a": "1"}
-- {"id": 2, "a": "2"}

SELECT '{"a": {"b": [1, 2]}}'->'a'->>'b' AS b;
-- {"b": "[1,2]"}

SELECT JSON_EXTRACT('{"user_id": 5}', '$.user_id') AS user_id;
-- {"user_id": "5"}

SELECT JSON_OBJECT('id', id, 'where', JSON_OBJECT('country', country)) AS doc FROM 'data/events.jsonl' WHERE id = 1;
-- {"doc": {"id": 1, "where": {"country": "CH"}}}

SELECT id FROM 'data/events.jsonl' WHERE to_json(data)->>'a' > '4';
-- {"id": 5}
-- {"id": 6}

SELECT filter(array('{"k": 1}', '{"k": 2}'), x -> x->>'k' = '2') AS found;
-- {"found": ["{\"k\": 2}"]}
