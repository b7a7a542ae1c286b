"""Records shared by generated code and Python: layout, enumerations, flags, and typed access from both sides.

:mod:`.structs` and :mod:`.race_records` declare records with :mod:`.fields`; :mod:`.field_access` reads and writes them
in generated code, :mod:`.records` in Python. A field's type is declared once: neither side can use another one.

What the records mean is in :mod:`.states` (enumerations), :mod:`.access_flags` and :mod:`.texture_forms` (numbers
that generated code passes to the device library), and :mod:`.memory` (shadow bytes of the arena).
"""
