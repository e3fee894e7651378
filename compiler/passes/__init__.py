"""This package contains the passes: functions from kernel to kernel, one in each file, and the analyses they share."""
