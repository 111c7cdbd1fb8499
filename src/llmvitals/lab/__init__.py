"""The incident lab: scenarios whose truth is known, played through the simulator and the triage, and scored."""
