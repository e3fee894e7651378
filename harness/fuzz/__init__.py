"""The fuzzer: random programs on every executor, what they find, made small and kept."""
