"""This package runs Metal programs on the CPU as C++; a header defines the Metal names that C++ lacks.

It shows that the texts mean what the kernel means. It shows nothing about Metal's own compiler or about threads that
run at the same time.
"""
