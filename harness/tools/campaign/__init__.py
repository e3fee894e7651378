"""This package runs campaigns: fuzzing in numbered units that any process on any machine may run, kept in one folder.

A unit is a run of consecutive seeds, and its result depends on its number only. So a campaign can be stopped, resumed
and spread over machines, and its findings stay the same.
"""
