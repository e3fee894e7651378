"""This package holds the peers' modules on blocks of iterations, whose names are those of `sg.simt`."""
