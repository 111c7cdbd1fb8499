"""Pages of gateways and routers in front of engines: one file per kind."""
