-- Capture PostgreSQL changes and maintain Iceberg table
SELECT 
  CASE 
    WHEN operation_type = 'DELETE' THEN 'D'
    ELSE 'U'
  END as _action,
  after->>'id' as id,
  after->>'customer_id' as customer_id,
  after->>'status' as status,
  after->>'updated_at' as updated_at
FROM 'postgres-cdc://localhost:5432/production'
WHERE table_name = 'orders'
INTO 'iceberg://catalog.warehouse.orders_mirror'
WITH (
  merge_on = 'id',
  delete_on = '_action = "D"'
);
