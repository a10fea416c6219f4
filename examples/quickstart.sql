-- What each country bought, out of a file of events and one of customers.
-- One read, two sinks: Parquet files for others to use, and a table to look at.

SELECT
  c.country,
  COUNT(*) AS purchases,
  COUNT(DISTINCT e.customer_id) AS customers,
  ROUND(SUM(e.amount), 2) AS revenue
FROM 'examples/data/events.jsonl' e
JOIN 'examples/data/customers.csv' c ON c.id = e.customer_id
WHERE e.type = 'purchase' AND e.amount >= 20
GROUP BY c.country
ORDER BY revenue DESC
INTO 'out/revenue/*.parquet' WITH (mode = 'overwrite'), 'terminal:';
