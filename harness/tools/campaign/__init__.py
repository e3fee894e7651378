"""This package runs campaigns: long fuzzing runs, split into numbered units that any machine can run.

A unit is a run of consecutive seeds, and its result depends on its number only. So a campaign can be stopped, resumed
and spread over machines, and its findings stay the same.
"""
