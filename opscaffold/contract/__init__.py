"""What a PyTorch custom operator promises. Pure: no I/O, no torch, no libcst."""
