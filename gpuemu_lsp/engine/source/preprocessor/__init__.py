"""Lexical layer: blanked text and its directives, macro definitions and their expansion, inactive ``#if`` regions."""
