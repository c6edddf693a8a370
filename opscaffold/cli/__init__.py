"""The command line: one module a command, nothing heavy imported until the command runs."""
