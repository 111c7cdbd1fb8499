"""The page as OTLP metrics, pushed to a collector: the same families, labels and numbers, for places without a Prometheus.

Only :mod:`.push` may be imported without the extra ``otel``; it brings in the rest once the settings name an endpoint.
"""
