"""Dependence of accesses: on branches (:mod:`.control`), and on what memory holds (:mod:`.values`)."""
