"""This package holds what backends of GPUs share: launches, memory, waits, and the heap and places of adstacks."""
