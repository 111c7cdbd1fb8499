"""Boards for who scrapes engines themselves and has no exporter of ours: the same panels, asked of the engine's own series."""
