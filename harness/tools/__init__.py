"""This package holds the tools around the test harness: fuzzers, benchmarks, campaigns, mutants and generators.

The fuzzer, the hunt in other systems, campaigns, benchmarks, golden texts.
"""
