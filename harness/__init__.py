"""The harness: executors, oracles, comparison."""
