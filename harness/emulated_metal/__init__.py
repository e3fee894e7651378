"""Programs for Metal, run on the host: their texts are C++ but for a few words, which a header defines.

It shows that the texts mean what the kernel does. It shows nothing of Metal's own compiler, nor of threads at once.
"""
