"""The vocabulary between finding and repairing."""
