"""This package runs programs for Metal on the host: their text is C++ except for a few words, which a header defines.

It shows that the texts mean what the kernel means. It shows nothing about Metal's own compiler or about threads that
run at the same time.
"""
