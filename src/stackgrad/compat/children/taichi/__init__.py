"""This folder holds the module that an import of Taichi runs in processes started by a program of Taichi."""
