"""This package holds the tools around the judge.

The fuzzer, the hunt in other systems, campaigns, benchmarks, golden texts.
"""
