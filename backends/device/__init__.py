"""This package holds what backends of GPUs share: the heap of adstacks and the choice of launch sizes."""
