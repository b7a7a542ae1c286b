"""Answers to calls of the program that are no launches or transfers."""
