"""The host under the engines, from psutil, /proc and control groups."""

from llmvitals.telemetry.host.reader import HostReader

__all__ = ["HostReader"]
