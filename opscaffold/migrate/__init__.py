"""Intents to target contracts to edits to a diff or a write."""
