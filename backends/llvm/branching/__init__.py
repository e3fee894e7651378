"""This package writes iterations as code with branches, one iteration at a time."""
