"""Compiled loops: arrays and numbers in, arrays and numbers out.

Nothing here knows an object of the package. Every function is compiled by :func:`compiling.compiled`.
"""
