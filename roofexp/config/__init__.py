"""From YAML to plain, checked data: the schema, composition, and what is said of a mistake."""
