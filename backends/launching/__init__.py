"""This package launches lowered kernels on a backend: it sizes adstacks and reports times and memory of launches."""
