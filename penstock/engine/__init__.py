"""From a plan to running Spark queries."""
