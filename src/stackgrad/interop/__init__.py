"""This package lets other array libraries, such as torch and JAX, call and differentiate kernels."""
