"""Text -> statements. Pure: nothing here knows a connector or starts Spark."""
