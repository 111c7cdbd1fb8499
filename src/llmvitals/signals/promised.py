"""By which promise a scope is judged: a class that takes a whole model has its thresholds on that model's own page, too.

Whoever judges a window (the walk, :func:`~llmvitals.signals.catalogue.compute`, a history) asks here, so that the exporter, the
command line and the app hold a model to the same.
"""

from __future__ import annotations

import msgspec

from llmvitals.series import Window
from llmvitals.settings import Settings
from llmvitals.slo import slo_of_model


def of_model(settings: Settings, model: str) -> Settings:
    """The settings by which a model is judged. Given twice, it changes nothing more."""
    if not settings.slo.classes:
        return settings
    slo = slo_of_model(settings.slo, model)
    return settings if slo is settings.slo else msgspec.structs.replace(settings, slo=slo)


def promised(window: Window, settings: Settings) -> Settings:
    """The settings by which a window is judged: those of its model; as they stand where it names none, or several."""
    if not settings.slo.classes:
        return settings
    models = {track.label("model") for name in window.names() for track in window.tracks(name)} - {""}
    return of_model(settings, models.pop()) if len(models) == 1 else settings
