"""Input from users of the library, checked: features, behaviors, tables, parameters."""
