"""Records shared by generated code and Python: layout, enumerations, flags, and typed access from both sides.

:mod:`.structs` and :mod:`.race_records` declare records with :mod:`.fields`; :mod:`.field_access` reads and writes them
in generated code, :mod:`.records` in Python. A field's type is declared once: neither side can use another one.
"""
