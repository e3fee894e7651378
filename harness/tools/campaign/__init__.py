"""This package runs campaigns: numbered units of fuzzing that any process or machine can run, stored in one folder.

A unit is a run of consecutive seeds, and its result depends on its number only. So a campaign can be stopped, resumed
and spread over machines, and its findings stay the same.
"""
