"""The functions as they were when ops were made of them: what the kernels must go on computing."""
