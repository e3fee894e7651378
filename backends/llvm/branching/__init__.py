"""This package emits branching code: it runs one iteration at a time and branches wherever the IR does."""
