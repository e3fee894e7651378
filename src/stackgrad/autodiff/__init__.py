"""This package differentiates programs: tapes, forward mode, second order, and gradients of single launches."""
