"""NeMo Gym's config dialect: YAML files, merging, directives, interpolation and servers."""
