"""TODO-PACKAGE policies."""
