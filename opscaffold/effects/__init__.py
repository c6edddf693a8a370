"""What a kernel body really does to its arguments and returns."""
