"""This package lists which files and tables must change to add an operation, a statement, a pass or a backend.

`tables` finds all tables and where they are; `steps` lists what no table holds; `insertion` and `scaffold` write table
entries of a new operation (`stackgrad new-op`); `page` makes docs/recipes.md.
"""
