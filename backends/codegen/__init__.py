"""This package contains the parts that all code generators share: types, argument block, scalar operations, checks."""
