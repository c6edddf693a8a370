"""Which files, which ops are registered there, and who refers to them. Reads, never runs."""
