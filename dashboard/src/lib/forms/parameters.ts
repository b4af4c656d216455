import { isSame } from '$lib/agents/patch';
import { isObject, jsonLine, parseNumber } from '$lib/json/exact';

/** A parameter that a plain form can edit. */
export interface Field {
  name: string;
  kind: 'text' | 'long' | 'integer' | 'number' | 'boolean' | 'choice' | 'list';
  required: boolean;
  description: string;
  choices: unknown[];
  /** Text of the default value; empty without one. */
  initial: string;
}

type Schema = Record<string, unknown>;

function kindOf(schema: Schema, name: string): Field['kind'] | null {
  if (Array.isArray(schema.enum)) return 'choice';
  switch (schema.type) {
    case 'string':
      return ['prompt', 'text', 'message', 'task'].includes(name) ? 'long' : 'text';
    case 'integer':
    case 'number':
    case 'boolean':
      return schema.type;
    case 'array':
      return isObject(schema.items) && schema.items.type === 'string' && !schema.items.enum ? 'list' : null;
    default:
      return null;
  }
}

/** Returns the fields of a simple object schema; null if the schema needs the editor. */
export function fieldsOf(schema: unknown): Field[] | null {
  if (schema === undefined || schema === null) {
    return [{ name: 'prompt', kind: 'long', required: true, description: '', choices: [], initial: '' }];
  }
  if (!isObject(schema) || !isObject(schema.properties)) return null;
  if (['allOf', 'anyOf', 'oneOf', '$ref', 'patternProperties'].some((keyword) => keyword in schema)) return null;
  const required = Array.isArray(schema.required) ? schema.required : [];
  const fields: Field[] = [];
  for (const [name, property] of Object.entries(schema.properties)) {
    const kind = isObject(property) ? kindOf(property, name) : null;
    if (!kind || !isObject(property)) return null;
    fields.push({
      name,
      kind,
      required: required.includes(name),
      description: typeof property.description === 'string' ? property.description : '',
      choices: Array.isArray(property.enum) ? property.enum : [],
      initial: textOf(kind, property.default),
    });
  }
  return fields;
}

function valueOf(field: Field, text: string): unknown {
  switch (field.kind) {
    case 'integer':
    case 'number':
      return parseNumber(text);
    case 'boolean':
      return text === 'true';
    case 'choice':
      return field.choices.find((choice) => choiceText(choice) === text) ?? text;
    case 'list':
      return text.split('\n').map((line) => line.trim()).filter(Boolean);
    default:
      return text;
  }
}

export function choiceText(choice: unknown): string {
  return typeof choice === 'string' ? choice : jsonLine(choice);
}

/** Builds the parameters of a run from the texts of a form. Empty optional fields are left out. */
export function parametersOf(fields: Field[], texts: Record<string, string>): Record<string, unknown> {
  const parameters: Record<string, unknown> = {};
  for (const field of fields) {
    const text = texts[field.name] ?? '';
    if (text !== '' || field.required) parameters[field.name] = valueOf(field, text);
  }
  return parameters;
}

/** Returns the text that a field of this kind has for a value. */
function textOf(kind: Field['kind'], value: unknown): string {
  if (value === undefined) return '';
  if (kind === 'choice') return choiceText(value);
  if (kind === 'list' && Array.isArray(value)) return value.join('\n');
  return typeof value === 'string' ? value : jsonLine(value);
}

/** Returns the texts of a form for the parameters of an earlier run; null if the form cannot express them. */
export function textsOf(fields: Field[], parameters: Record<string, unknown>): Record<string, string> | null {
  const texts = Object.fromEntries(fields.map(({ name, kind }) => [name, textOf(kind, parameters[name])]));
  return isSame(parametersOf(fields, texts), parameters) ? texts : null;
}

/** Returns the texts of a form whose fields have changed: what a person typed stays, and other fields have their defaults. */
export function withDefaults(fields: Field[], texts: Record<string, string>, before: Field[]): Record<string, string> {
  const defaults = new Map(before.map(({ name, initial }) => [name, initial]));
  const isTyped = (name: string) => texts[name] !== undefined && texts[name] !== defaults.get(name);
  return { ...texts, ...Object.fromEntries(fields.filter(({ name }) => !isTyped(name)).map(({ name, initial }) => [name, initial])) };
}
