INSERT INTO risk_alerts
SELECT trader_id, position_value, risk_status
FROM trading_positions 
WHERE position_value > 1000000
WITH (
    source_config = 'configs/trading_positions_topic.yaml',
    sink_config = 'configs/risk_alerts_topic.yaml'
);
