"""What a kernel measured once, and what is different now: numbers, resources, and the code the compiler made."""
