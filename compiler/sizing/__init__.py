"""This package finds, before a launch, how deep adstacks get and which memory the launch touches."""
