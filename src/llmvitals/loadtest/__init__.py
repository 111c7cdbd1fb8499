"""Results of load tests: goodput against concurrency, the settings they suggest, and loads made from live traffic."""
