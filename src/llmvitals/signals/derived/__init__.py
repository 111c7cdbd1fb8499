"""Signals that the algebra cannot say: functions of a :class:`~llmvitals.signals.context.Context`, one file per
subject.

Each returns a :class:`~llmvitals.signals.reading.Reading`. They are computed by the same code whether the window came
from a page, a capture or a PromQL endpoint, and are exported as gauges.
"""
