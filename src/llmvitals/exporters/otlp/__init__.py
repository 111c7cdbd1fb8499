"""The page as OTLP metrics, pushed to a collector: the same families, labels and numbers, for places without a Prometheus.

Every module here can be imported without the extra ``otel``: what is of OpenTelemetry is loaded by who uses it.
"""
