"""One module a rule: facts in, findings out."""
