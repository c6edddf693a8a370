"""Where the calls come from on which an op is run, and how they are varied."""
