"""GPU telemetry: pages of GPU exporters, and how their GPUs are joined to engines."""
