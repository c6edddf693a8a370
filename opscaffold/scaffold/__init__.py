"""Answers to contracts to rendered op packages."""
