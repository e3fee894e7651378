"""This folder holds the module that an import of Quadrants runs in processes started by a program of Quadrants."""
