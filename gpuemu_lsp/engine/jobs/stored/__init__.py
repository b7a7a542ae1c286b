"""Results of earlier checks: failing cases, their smallest forms, measurements of earlier saves."""
