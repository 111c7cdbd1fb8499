"""Engines' pages: one file per engine."""
