"""The parts of the .kir collector: reading the files, running kernels, comparing numbers."""
