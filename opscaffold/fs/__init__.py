"""Reading and writing files without loss."""
