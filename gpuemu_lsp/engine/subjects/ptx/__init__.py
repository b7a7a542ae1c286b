"""PTX files: nothing is compiled, the text is what runs, and findings are on its lines.

:mod:`.language`, :mod:`.preparation`
    The language, and the preparation of an entry.
:mod:`.line_numbers`
    The text with its own lines in place of those of the source that it was compiled from.
"""
