"""The canonical function of Hearth, a second implementation.

Written from the text of kernels/CANONICAL.md alone, a file a section, with numpy; nothing here was
taken from the C++. Where the two differ, the text decides.
"""
