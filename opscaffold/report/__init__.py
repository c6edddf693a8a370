"""Findings and plans as text and JSON. Knows no rule."""
