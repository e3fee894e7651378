"""Passes: kernel to kernel, one a file."""
