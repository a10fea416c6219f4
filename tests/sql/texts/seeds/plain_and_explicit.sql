-- Current syntax (still works)
SELECT * FROM orders WHERE amount > 100;

-- New explicit syntax (also works)
SELECT * FROM 'kafka://localhost:9092/orders' WHERE amount > 100;
