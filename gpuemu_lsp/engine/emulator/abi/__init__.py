"""Records shared by generated code and Python: structs with declared fields, and typed access to them."""
