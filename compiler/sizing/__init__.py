"""This package determines before a launch how deep adstacks get and which array elements the launch touches."""
