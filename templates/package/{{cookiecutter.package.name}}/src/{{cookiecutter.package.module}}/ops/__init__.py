"""The ops, one module each."""
