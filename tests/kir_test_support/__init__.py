"""This package contains the parts of the .kir collector: reading files, running kernels, comparing numbers."""
