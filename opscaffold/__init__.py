"""opscaffold: write, check and migrate PyTorch custom operators by their contract."""

__version__ = "0.1.0"
