"""How numbers are spread: the panels ``heatmap`` and ``bargauge``."""

from __future__ import annotations

from llmvitals.dashboards.model import EXPONENT, NOT_ZERO, SCHEME
from llmvitals.dashboards.shapes.base import Json, attr, core


@attr.s
class Heatmap(core.Panel):  # type: ignore[misc]  # grafanalib has no types
    """Counts by bucket over time: the panel ``heatmap`` as it is since Grafana 9; grafanalib's is older.

    The source makes single buckets of cumulative ones (format ``heatmap``), each a row of equal height: edges that grow by a
    factor lie on a logarithmic scale by themselves, and the highest, infinite one has its row.
    """

    unit: str = attr.ib(default="")
    empty: str = attr.ib(default="")
    dots: str = attr.ib(default="")

    def to_json_data(self) -> Json:
        """Grafana's form."""
        found: Json = self.panel_json(
            {
                "type": "heatmap",
                "options": {
                    "calculate": False,
                    "cellGap": 1,
                    "cellValues": {"unit": "short"},
                    "color": {
                        "mode": "scheme",
                        "scheme": SCHEME,
                        "fill": self.dots,
                        "scale": "exponential",
                        "exponent": EXPONENT,
                        "steps": 64,
                        "reverse": False,
                    },
                    "exemplars": {"color": self.dots},
                    "filterValues": {"le": NOT_ZERO},
                    "legend": {"show": True},
                    "rowsFrame": {"layout": "auto"},
                    "showValue": "never",
                    "tooltip": {"mode": "single", "yHistogram": True, "showColorScale": True},
                    "yAxis": {"axisPlacement": "left", "reverse": False, "unit": self.unit},
                },
                "fieldConfig": {
                    "defaults": {
                        "unit": self.unit,
                        "noValue": self.empty,
                        "custom": {
                            "hideFrom": {"tooltip": False, "viz": False, "legend": False},
                            "scaleDistribution": {"type": "linear"},
                        },
                    },
                    "overrides": [],
                },
            }
        )
        return found


@attr.s
class Bars(core.Panel):  # type: ignore[misc]  # grafanalib has no types
    """A bar for each series, as it is now: the panel ``bargauge`` as it is since Grafana 10; grafanalib's is older.

    Bars stand in the order in which the source returns the series. ``low`` and ``high``: where bars begin and end, None to
    follow the data. ``passed``: bars have the colour of the highest limit that they pass.
    """

    unit: str = attr.ib(default="")
    empty: str = attr.ib(default="")
    low: float | None = attr.ib(default=None)
    high: float | None = attr.ib(default=None)
    passed: bool = attr.ib(default=False)
    ways: list[Json] = attr.ib(factory=list)
    overrides: list[Json] = attr.ib(factory=list)

    def to_json_data(self) -> Json:
        """Grafana's form."""
        found: Json = self.panel_json(
            {
                "type": "bargauge",
                "options": {
                    "displayMode": "basic",
                    "orientation": "horizontal",
                    "valueMode": "color",
                    "namePlacement": "left",
                    "showUnfilled": True,
                    "sizing": "auto",
                    "minVizHeight": 16,
                    "minVizWidth": 8,
                    "maxVizHeight": 60,
                    "legend": {"showLegend": False, "displayMode": "list", "placement": "bottom", "calcs": []},
                    "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
                },
                "fieldConfig": {
                    "defaults": {
                        "unit": self.unit,
                        "noValue": self.empty,
                        "min": self.low,
                        "max": self.high,
                        "color": {"mode": "thresholds" if self.passed else "fixed"},
                        "links": self.ways,
                        "custom": {},
                    },
                    "overrides": self.overrides,
                },
            }
        )
        return found
