"""What names and comparisons stand for: members of classes, functions that a program selects, bounds of sizes."""
