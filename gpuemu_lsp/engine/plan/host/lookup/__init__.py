"""What names stand for: members of classes, and functions that a program selects among several."""
