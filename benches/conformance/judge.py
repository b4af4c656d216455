"""Checks the answers of all contestants: validity, and the values that they must repeat from the prompt."""

import jsonschema

MISSING = object()


def validator(schema: dict) -> jsonschema.protocols.Validator:
    """Returns a validator for the schema's draft, Draft 7 by default. It does not assert `format`, for any peer."""
    return jsonschema.validators.validator_for(schema, default=jsonschema.Draft7Validator)(schema)


def violations(schema: dict, value: object) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in validator(schema).iter_errors(value)]


def at(value: object, pointer: str) -> object:
    """Returns the value at a JSON Pointer without escapes, or MISSING."""
    for part in pointer.split("/")[1:]:
        if isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        elif isinstance(value, dict) and part in value:
            value = value[part]
        else:
            return MISSING
    return value


def same(left: object, right: object) -> bool:
    """Compares two JSON values: 190 equals 190.0, but 1 does not equal true."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right


def matches(expected: dict, value: object) -> int:
    """Counts the expected values in an answer. A list contains the accepted values, so an expected array is its element."""
    count = 0
    for pointer, values in expected.items():
        accepted = values if isinstance(values, list) else [values]
        found = at(value, pointer)
        count += any(same(found, one) for one in accepted)
    return count


def count_empty(schema: dict, value: object) -> int:
    """Counts the required strings and arrays that are empty: valid, but useless to a caller."""
    return count_empty_below(schema, schema, value)


def count_empty_below(root: dict, schema: object, value: object) -> int:
    if not isinstance(schema, dict):
        return 0
    if "$ref" in schema:
        schema = at(root, schema["$ref"].removeprefix("#"))
    if isinstance(value, list):
        items = schema.get("items", {})
        return sum(count_empty_below(root, items, item) for item in value)
    if not isinstance(value, dict):
        return 0
    found = sum(value.get(name) in ("", []) for name in schema.get("required", []))
    properties = schema.get("properties", {})
    return found + sum(count_empty_below(root, properties[name], part) for name, part in value.items() if name in properties)
