-- Join real-time Kafka with S3 historical data, write to Delta Lake
SELECT 
  k.order_id,
  k.customer_id,
  k.amount,
  h.customer_segment,
  h.lifetime_value,
  i.current_inventory
FROM 'kafka://localhost:9092/orders' k
LEFT JOIN 's3://warehouse/customers/*.parquet' h
  ON k.customer_id = h.customer_id
LEFT JOIN 'iceberg://catalog.inventory.current_stock' i  
  ON k.product_id = i.product_id
WHERE k.amount > 500.00
INTO 'delta://lakehouse/enriched_orders/'
WITH (
  mode = 'append',
  optimize_write = true
);
