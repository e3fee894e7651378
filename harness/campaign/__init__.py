"""Campaigns: fuzzing in numbered units that any process on any machine may run, gathered in one folder.

A unit is a run of consecutive seeds; its result depends on its number alone. So a campaign can be stopped, resumed and
spread, and what it finds is the same.
"""
