"""What ``[tool.opscaffold]`` says about a project."""
