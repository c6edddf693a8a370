"""The checks: one module a promise or a few that one run of the op decides."""
