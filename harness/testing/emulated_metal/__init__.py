"""This package runs Metal programs on the CPU: a header defines the words by which their text differs from C++.

It shows that the texts mean what the kernel means. It shows nothing about Metal's own compiler or about threads that
run at the same time.
"""
