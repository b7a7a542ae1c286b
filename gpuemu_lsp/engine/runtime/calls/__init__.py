"""Answers to calls of the program that are not launches or transfers."""
