"""Queues: Little's law, the longest queue that keeps its promise, and M/M/1. Times in seconds, rates per second."""

from __future__ import annotations

CURVE = (0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98)
"""Loads at which a curve of waits is worth a point."""


def queue_ceiling(service_rate: float, acceptable_wait: float) -> float:
    """Longest queue whose last request still waits no longer than ``acceptable_wait`` seconds.

    Little's law for the queue alone: ``requests per second x seconds``. 8/s and 5 s give 40.
    """
    return littles_law(service_rate, acceptable_wait)


def littles_law(arrival_rate: float, mean_seconds: float) -> float:
    """Mean number in the system, ``L = lambda x W`` (Little 1961), for any stable system."""
    return arrival_rate * mean_seconds


def mm1_wait(service_seconds: float, utilization: float) -> float:
    """Mean wait in the queue of M/M/1 in seconds: ``S x rho / (1 - rho)``; infinite from ``rho`` = 1 on.

    Source: Kleinrock, Queueing Systems I (1975), section 3.2. An LLM server batches, so this shows the shape of the
    curve (at 0.5 one service time, at 0.9 nine), not its own numbers. ``rho`` is no GPU percentage.
    """
    if utilization >= 1.0:
        return float("inf")
    return service_seconds * utilization / (1.0 - utilization)


def wait_curve(service_rate: float) -> tuple[tuple[float, float], ...]:
    """(load, mean wait in seconds) of M/M/1 that finishes ``service_rate`` requests per second."""
    return tuple((load, mm1_wait(1.0 / service_rate, load)) for load in CURVE)


def load_for(service_rate: float, acceptable_wait: float) -> float:
    """The load at which the mean wait of M/M/1 is ``acceptable_wait``: ``W / (W + S)``, from :func:`mm1_wait`."""
    return acceptable_wait / (acceptable_wait + 1.0 / service_rate)
