"""Whose GPU, process, container and pod is whose: the join between an engine's page and the machine under it."""
