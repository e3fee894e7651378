"""This package tests tapes on random programs of several launches, with host writes and copies, and two threads.

A tape's work lies above the compiler, so it runs through the runtime as a user's program does. Dual numbers, which know
nothing of adjoints, judge it. All arithmetic is on small integers that f64 holds exactly, so a gradient is right to the
last bit or wrong. The two threads take turns.
"""
