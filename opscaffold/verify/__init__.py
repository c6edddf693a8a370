"""Runs ops to prove what their contract says. The only package that imports torch."""
