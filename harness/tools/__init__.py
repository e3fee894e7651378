"""This package holds the tools around the test harness: fuzzers, benchmarks, campaigns, mutants and generators."""
