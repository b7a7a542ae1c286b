"""Arguments of a plan from the values that the host code passes to a kernel."""
