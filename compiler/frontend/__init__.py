"""From Python functions to IR: kernels are traced once, with every mistake reported at its place."""
