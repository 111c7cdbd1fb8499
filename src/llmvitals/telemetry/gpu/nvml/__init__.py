"""GPUs as the driver's own library shows them, in canonical families."""

from llmvitals.telemetry.gpu.nvml.reader import Reader

__all__ = ["Reader"]
