"""This package holds the data that kernels work on: fields, arrays, vectors, matrices, structs, and their types."""
