"""This package holds what all code generators share.

Types, the argument block, targets, scalar operations and checks.
"""
