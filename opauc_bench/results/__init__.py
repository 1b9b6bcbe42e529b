"""Storage: records, manifests, and records as tables."""
