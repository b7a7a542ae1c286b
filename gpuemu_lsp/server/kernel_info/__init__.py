"""Results of a kernel's last check, as hovers, code lenses and inlay hints show them."""
