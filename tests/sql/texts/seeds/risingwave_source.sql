create source part (
    p_partkey INTEGER NOT NULL,
    p_name VARCHAR(55) NOT NULL,
    p_mfgr CHAR(25) NOT NULL,
) with (
    'upstream.source' = 'kafka',
    'kafka.topic' = 'topic_name',
    'kafka.bootstrap.servers' = 'localhost:29092' )
row format 'json' -- declare a format
