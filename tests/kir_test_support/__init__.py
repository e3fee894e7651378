"""What the .kir collector is made of: reading the files, running kernels, comparing numbers."""
