"""Real servers for tests: fetched once, started on free ports of this machine, ended with the run."""
