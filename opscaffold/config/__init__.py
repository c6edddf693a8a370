"""Reading and validating `[tool.opscaffold]`."""
