"""The one judge of every answer: is it valid, and does it hold the values that stand in the prompt?"""

import jsonschema

MISSING = object()


def validator(schema: dict) -> jsonschema.protocols.Validator:
    """Draft 7 unless the schema says otherwise. `format` is not asserted, which favours every peer equally."""
    return jsonschema.validators.validator_for(schema, default=jsonschema.Draft7Validator)(schema)


def problems(schema: dict, value: object) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in validator(schema).iter_errors(value)]


def at(value: object, pointer: str) -> object:
    """The value at a JSON Pointer, or MISSING. Our pointers need no escapes."""
    for part in pointer.split("/")[1:]:
        if isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        elif isinstance(value, dict) and part in value:
            value = value[part]
        else:
            return MISSING
    return value


def same(left: object, right: object) -> bool:
    """JSON equality: 190 equals 190.0, but 1 does not equal true."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right


def matches(expected: dict, value: object) -> int:
    """How many of the expected values are there. A list names the accepted values, so an array stands inside a list."""
    count = 0
    for pointer, wanted in expected.items():
        accepted = wanted if isinstance(wanted, list) else [wanted]
        found = at(value, pointer)
        count += any(same(found, one) for one in accepted)
    return count


def empties(schema: dict, value: object) -> int:
    """How many required strings and arrays are empty: valid, and worth nothing."""
    return count_empties(schema, schema, value)


def count_empties(root: dict, schema: object, value: object) -> int:
    if not isinstance(schema, dict):
        return 0
    if "$ref" in schema:
        schema = at(root, schema["$ref"].removeprefix("#"))
    if isinstance(value, list):
        items = schema.get("items", {})
        return sum(count_empties(root, items, item) for item in value)
    if not isinstance(value, dict):
        return 0
    found = sum(value.get(name) in ("", []) for name in schema.get("required", []))
    properties = schema.get("properties", {})
    return found + sum(count_empties(root, properties[name], part) for name, part in value.items() if name in properties)
