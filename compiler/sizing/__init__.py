"""Sizing: what is known of adstacks and memory before a launch."""
