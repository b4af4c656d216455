"""Converts a task's JSON Schema to a Pydantic model or to BAML source.

Both express as much of the schema as the peer's language can: names, types, enums, optional fields, bounds, patterns,
descriptions. `judge.py` validates the answers against the original schema.
"""

import json
import re
from typing import Annotated, Any, Literal, Optional, Union

from pydantic import BaseModel, ConfigDict, Field, create_model

SCALARS = {"string": str, "integer": int, "number": float, "boolean": bool, "null": type(None)}
BAML_SCALARS = {"string": "string", "integer": "int", "number": "float", "boolean": "bool", "null": "null"}
BOUNDS = {"minimum": "ge", "maximum": "le", "minLength": "min_length", "maxLength": "max_length",
          "minItems": "min_length", "maxItems": "max_length", "pattern": "pattern"}
WRAP = "result"


def resolved(schema: dict, root: dict) -> dict:
    if "$ref" not in schema:
        return schema
    target: Any = root
    for part in schema["$ref"].split("/")[1:]:
        target = target[part]
    return target


def is_object(schema: dict) -> bool:
    return schema.get("type") == "object" and "properties" in schema


def class_name(path: str) -> str:
    return "".join(word.capitalize() for word in re.split(r"[^A-Za-z0-9]+", path) if word)


def pydantic_model(task: dict) -> tuple[type[BaseModel], bool]:
    """Returns the model, and whether its field `result` wraps the answer, since a model's root must be an object."""
    schema = task["schema"]
    if is_object(schema):
        return pydantic_type(schema, schema, class_name(task["id"])), False
    inner = pydantic_type(schema, schema, "Item")
    return create_model(class_name(task["id"]), **{WRAP: (inner, ...)}), True


def pydantic_type(schema: dict, root: dict, name: str) -> Any:
    if "$ref" in schema:
        name = class_name(schema["$ref"].split("/")[-1])
    schema = resolved(schema, root)
    kind = schema.get("type")
    if "enum" in schema:
        return Literal[tuple(schema["enum"])]
    if "anyOf" in schema:
        return Union[tuple(pydantic_type(one, root, f"{name}{index}") for index, one in enumerate(schema["anyOf"]))]
    if isinstance(kind, list):
        return Union[tuple(SCALARS[one] for one in kind)]
    if kind == "array":
        base: Any = list[pydantic_type(schema.get("items", {}), root, f"{name}Item")]
    elif is_object(schema):
        return pydantic_object(schema, root, name)
    elif kind == "object":
        return dict[str, Any]
    else:
        base = SCALARS.get(kind, Any)
    bounds = {argument: schema[keyword] for keyword, argument in BOUNDS.items() if keyword in schema}
    return Annotated[base, Field(**bounds)] if bounds else base


def pydantic_object(schema: dict, root: dict, name: str) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for key, value in schema["properties"].items():
        kind = pydantic_type(value, root, f"{name}{class_name(key)}")
        description = value.get("description")
        if key in schema.get("required", []):
            fields[key] = (kind, Field(description=description))
        else:
            fields[key] = (Optional[kind], Field(default=None, description=description))
    extra = "forbid" if schema.get("additionalProperties") is False else "ignore"
    return create_model(name, __config__=ConfigDict(extra=extra), **fields)


def without_nulls(value: Any, schema: dict, root: dict) -> Any:
    """Removes optional fields that a typed language sets to null, where the schema does not allow null."""
    schema = resolved(schema, root)
    if isinstance(value, list) and "items" in schema:
        return [without_nulls(item, schema["items"], root) for item in value]
    if isinstance(value, dict) and "properties" in schema:
        required = schema.get("required", [])
        return {
            key: without_nulls(item, schema["properties"].get(key, {}), root)
            for key, item in value.items()
            if item is not None or key in required
        }
    return value


# BAML

BAML_HEADER = """generator target {{
  output_type "python/pydantic"
  output_dir "../"
  version "{version}"
  default_client_mode "sync"
}}

client<llm> Local {{
  provider "openai-generic"
  options {{
    base_url env.CONFORMANCE_BASE_URL
    api_key "none"
    model "{model}"
  }}
}}
"""


def baml_source(tasks: list[dict], version: str, model: str) -> str:
    return BAML_HEADER.format(version=version, model=model) + "\n".join(baml_function(task) for task in tasks)


def baml_function(task: dict) -> str:
    classes: dict[str, str] = {}
    schema = task["schema"]
    kind = baml_type(schema, schema, class_name(task["id"]), classes)
    system = f'{{{{ _.role("system") }}}}\n{task["system"]}\n' if "system" in task else ""
    prompt = f'{system}{{{{ _.role("user") }}}}\n{{{{ text }}}}\n\n{{{{ ctx.output_format }}}}'
    function = f'function {baml_name(task)}(text: string) -> {kind} {{\n  client Local\n  prompt #"\n{prompt}\n"#\n}}\n'
    return "\n".join(classes.values()) + function


def baml_name(task: dict) -> str:
    return f"Run{class_name(task['id'])}"


def baml_type(schema: dict, root: dict, name: str, classes: dict[str, str]) -> str:
    if "$ref" in schema:
        name = f"{class_name(root.get('title', ''))}{name}"
    schema = resolved(schema, root)
    kind = schema.get("type")
    if "enum" in schema:
        return "(" + " | ".join(json.dumps(value) for value in schema["enum"]) + ")"
    if "anyOf" in schema:
        return "(" + " | ".join(baml_type(one, root, name, classes) for one in schema["anyOf"]) + ")"
    if isinstance(kind, list):
        return "(" + " | ".join(BAML_SCALARS[one] for one in kind) + ")"
    if kind == "array":
        return baml_type(schema.get("items", {"type": "string"}), root, f"{name}Item", classes) + "[]"
    if is_object(schema):
        lines = []
        for key, value in schema["properties"].items():
            inner = baml_type(value, root, f"{name}{class_name(key)}", classes)
            optional = "" if key in schema.get("required", []) else "?"
            described = f" @description({json.dumps(value['description'])})" if "description" in value else ""
            lines.append(f"  {key} {inner}{optional}{described}")
        classes[name] = f"class {name} {{\n" + "\n".join(lines) + "\n}\n"
        return name
    if kind == "object":
        return "map<string, string>"
    return BAML_SCALARS[kind]
