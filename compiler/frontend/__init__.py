"""This package contains the frontend, which traces Python functions and turns them into kernels of stage `source`."""
