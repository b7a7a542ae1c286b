"""Memory that lasts from launch to launch, and the address space behind the arena."""
