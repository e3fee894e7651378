"""This package judges compiled kernels: it runs them on executors and oracles and compares the results."""
